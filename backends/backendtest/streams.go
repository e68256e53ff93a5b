//go:build linux

package backendtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// flood is the size of large test outputs, in bytes.
const flood = 16 << 20

func testStreams(t *testing.T, b *bench) {
	b.runParallel(t, "apart", func(t *testing.T) {
		o := b.shell(t, "echo out; echo err >&2; printf 'no end of line'").mustSucceed(t)
		if o.Stdout != "out\nno end of line" || o.Stderr != "err\n" {
			t.Errorf("stdout %q, stderr %q", o.Stdout, o.Stderr)
		}
	})
	b.runParallel(t, "output of what the program left running", func(t *testing.T) {
		// All output that any process writes before the end arrives.
		o := b.shell(t, "(echo child; : >said; sleep 1000) & until [ -e said ]; do :; done; echo parent").mustSucceed(t)
		if o.Stdout != "child\nparent\n" {
			t.Errorf("stdout %q", o.Stdout)
		}
	})
	b.runParallel(t, "signals", func(t *testing.T) {
		// A program receives each signal after it has reported its handler, and ends by itself. It waits: in bash
		// 5.2, a signal during the parsing of $(...) or <(...) makes the trap fail with "unexpected EOF".
		s := b.start(t, b.spec("shell"))
		interrupt, terminate := make(chan struct{}, 1), make(chan struct{}, 1)
		out := &heard{tell: map[string]chan<- struct{}{"ready\n": interrupt, "ready\nINT\n": terminate}}
		r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c",
			"trap 'echo INT' INT; trap 'echo TERM; exit 9' TERM; echo ready; sleep 1000 & while :; do wait; done"}},
			backends.Streams{Stdout: out, Interrupt: interrupt, Terminate: terminate})
		if err != nil || r.ExitCode != 9 || out.text != "ready\nINT\nTERM\n" {
			t.Errorf("got %q, %+v, %v", out.text, r, err)
		}
	})
	t.Run("stdin", func(t *testing.T) { testStdin(t, b) })
	b.runParallel(t, "flood", func(t *testing.T) { testFlood(t, b) })
	b.runParallel(t, "nowhere to write", func(t *testing.T) {
		s := b.start(t, b.spec("shell"))
		r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "echo x; echo y >&2; exit 4"}}, backends.Streams{})
		if err != nil || r.ExitCode != 4 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	b.runParallel(t, "writer that waits", func(t *testing.T) {
		// A client that does not read delays its output, not the program's end.
		spec := b.spec("shell")
		spec.Limits.Wall = time.Second
		word := ulid.Make().String()
		w := waitingWriter{make(chan struct{}), make(chan struct{})}
		s := b.start(t, spec)
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "while echo " + word + "; do :; done"}},
				backends.Streams{Stdout: w})
			if err != nil || r.Ended != backends.EndedTimeout {
				t.Errorf("ended %s, %v", r.Ended, err)
			}
		}()
		select {
		case <-w.begun:
		case <-done: // it had no time to write
		}
		hosttest.Until(t, "the program has ended", func() bool { return len(processesWith(word)) == 0 })
		close(w.until)
		<-done
	})
	b.runParallel(t, "writer that fails", func(t *testing.T) {
		var errs lockedBuffer
		s := b.start(t, b.spec("python"))
		r, err := s.Exec(t.Context(), backends.Command{Args: []string{"python", "-c",
			"import sys\nfor i in range(2000): print('x' * 1000)\nsys.stdout.flush(); sys.stderr.write('to the end'); sys.exit(5)"}},
			backends.Streams{Stdout: brokenWriter{}, Stderr: &errs})
		if err != nil || r.ExitCode != 5 || errs.String() != "to the end" {
			t.Errorf("ended %s, exit code %d, stderr %q, %v; want the program to run on", r.Ended, r.ExitCode, errs.String(), err)
		}
	})
}

// waitingWriter blocks until it is released.
type waitingWriter struct{ begun, until chan struct{} }

func (w waitingWriter) Write(p []byte) (int, error) {
	select {
	case w.begun <- struct{}{}:
	case <-w.until:
	}
	<-w.until
	return len(p), nil
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("this reader left") }

func testStdin(t *testing.T, b *bench) {
	data := make([]byte, 8<<20)
	rand.New(rand.NewSource(1)).Read(data)
	sum := sha256.Sum256(data)
	endless, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	for _, c := range []struct {
		name  string
		args  []string
		stdin io.Reader
		want  string
	}{
		{"binary", []string{"sha256sum"}, bytes.NewReader(data), hex.EncodeToString(sum[:]) + "  -\n"},
		{"not read", []string{"true"}, bytes.NewReader(data), ""},
		{"closed early", []string{"bash", "-c", "head -c 10 >/dev/null; exec <&-; sleep 0.1; echo done"}, bytes.NewReader(data), "done\n"},
		{"never ends", []string{"echo", "done"}, endless, "done\n"},
	} {
		b.runParallel(t, c.name, func(t *testing.T) {
			o, err := tryExec(t, b.start(t, b.spec("shell")), backends.Command{Args: c.args}, c.stdin)
			if err != nil || o.Ended != backends.EndedOK || o.Stdout != c.want {
				t.Errorf("ended %s, stdout %q, want %q, stderr %q, %v", o.Ended, o.Stdout, c.want, o.Stderr, err)
			}
		})
	}
	b.runParallel(t, "comes piece by piece", func(t *testing.T) {
		// Input arrives piece by piece: the program answers each piece before the next is sent.
		r, w := io.Pipe()
		s := b.start(t, b.spec("shell"))
		var out lockedBuffer
		done := make(chan error, 1)
		go func() {
			_, err := s.Exec(t.Context(), backends.Command{Args: []string{"cat"}}, backends.Streams{Stdin: r, Stdout: &out})
			done <- err
		}()
		for i := range 5 {
			fmt.Fprintln(w, i)
			out.waitFor(t, fmt.Sprintln(i))
		}
		w.Close()
		if err := <-done; err != nil || out.String() != "0\n1\n2\n3\n4\n" {
			t.Errorf("stdout %q, %v", out.String(), err)
		}
	})
	b.runParallel(t, "fails", func(t *testing.T) {
		in := io.MultiReader(strings.NewReader("part"), brokenReader{})
		o, err := tryExec(t, b.start(t, b.spec("shell")), backends.Command{Args: []string{"cat"}}, in)
		if err == nil && o.Stdout != "part" {
			t.Errorf("stdout %q, %v", o.Stdout, err)
		}
	})
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("this writer left") }

// testFlood: both streams at once, binary and complete, and no output stays in the sandbox's memory.
func testFlood(t *testing.T, b *bench) {
	s := b.start(t, b.spec("python"))
	putPrograms(t, s, "flood.py")
	out, errs := &hashWriter{h: sha256.New()}, &hashWriter{h: sha256.New()}
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"python", "flood.py", fmt.Sprint(flood)}},
		backends.Streams{Stdout: out, Stderr: errs})
	if err != nil || r.Ended != backends.EndedOK {
		t.Fatalf("ended %s %s, %v", r.Ended, r.Limit, err)
	}
	sums := out.tail
	if want := fmt.Sprintf("%x", errs.h.Sum(nil)); errs.n != flood || sums != want {
		t.Errorf("stderr has %d bytes with hash %s, want %d and %s", errs.n, want, flood, sums)
	}
	if out.n != flood+64 {
		t.Errorf("stdout has %d bytes, want %d", out.n, flood+64)
	}
}

// hashWriter hashes its input and keeps the last 64 bytes.
type hashWriter struct {
	h    hash.Hash
	n    int
	tail string
}

func (w *hashWriter) Write(p []byte) (int, error) {
	w.h.Write(p)
	w.n += len(p)
	w.tail += string(p[max(0, len(p)-64):])
	w.tail = w.tail[max(0, len(w.tail)-64):]
	return len(p), nil
}

// heard collects output, and sends to a channel once it contains the expected text.
type heard struct {
	text string
	tell map[string]chan<- struct{}
}

func (h *heard) Write(b []byte) (int, error) {
	h.text += string(b)
	if c := h.tell[h.text]; c != nil {
		c <- struct{}{}
	}
	return len(b), nil
}
