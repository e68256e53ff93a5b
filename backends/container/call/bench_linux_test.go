package call

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// overEachConn runs a benchmark without a connection, and over each kind of connection.
func overEachConn(b *testing.B, f func(b *testing.B, s backends.Sandbox)) {
	b.Run("none", func(b *testing.B) {
		s, err := bareStart(b)(b.Context(), backends.Spec{})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		f(b, s)
	})
	for _, kind := range connKinds {
		b.Run(kind, func(b *testing.B) {
			s, err := startRemote(b.Context(), b, kind, backends.Spec{}, bareStart(b))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			f(b, s)
		})
	}
}

// idle is a sandbox whose commands end at once.
type idle struct{ backends.Sandbox }

func (idle) Exec(_ context.Context, _ backends.Command, s backends.Streams) (backends.Result, error) {
	s.Begun(held)
	return backends.Result{End: backends.End{Ended: backends.EndedOK}}, nil
}

// BenchmarkExec measures the connection's overhead for a command with all three streams.
func BenchmarkExec(b *testing.B) {
	for _, kind := range connKinds {
		b.Run(kind, func(b *testing.B) {
			s, err := startRemote(b.Context(), b, kind, backends.Spec{}, func(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
				s, err := bareStart(b)(ctx, spec)
				return idle{s}, err
			})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for b.Loop() {
				r, err := s.Exec(b.Context(), backends.Command{Args: []string{"x"}}, backends.Streams{
					Stdin: strings.NewReader("x"), Stdout: io.Discard, Stderr: io.Discard})
				if err != nil || r.Ended != backends.EndedOK {
					b.Fatal(r, err)
				}
			}
		})
	}
}

// BenchmarkBuild measures a connection from its greeting to its end, with an existing sandbox.
func BenchmarkBuild(b *testing.B) {
	for _, kind := range connKinds {
		b.Run(kind, func(b *testing.B) {
			real := &bare{dir: b.TempDir()}
			real.keep, real.close = context.WithCancel(b.Context())
			for b.Loop() {
				s, err := startRemote(b.Context(), b, kind, backends.Spec{}, func(context.Context, backends.Spec) (backends.Sandbox, error) {
					return real, nil
				})
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}

// BenchmarkStdout measures the output rate that the connection permits.
func BenchmarkStdout(b *testing.B) {
	const commandSize = 256 << 20
	overEachConn(b, func(b *testing.B, s backends.Sandbox) {
		b.SetBytes(commandSize)
		for b.Loop() {
			_, err := s.Exec(b.Context(), backends.Command{Args: []string{"head", "-c", fmt.Sprint(commandSize), "/dev/zero"}},
				backends.Streams{Stdout: onlyWriter{io.Discard}, Begun: func(backends.Containment) {}})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEach lists a thousand files.
func BenchmarkEach(b *testing.B) {
	overEachConn(b, func(b *testing.B, s backends.Sandbox) {
		if _, err := s.Exec(b.Context(), backends.Command{Args: []string{"bash", "-c", "for i in {1..1000}; do : >$i; done"}},
			backends.Streams{Begun: func(backends.Containment) {}}); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := s.Files().Each(b.Context(), func(backends.File) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
