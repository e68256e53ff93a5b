package call

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
)

// prefixWriter needs only the first bytes of an output, and counts the others.
type prefixWriter struct {
	limit int
	mu    sync.Mutex
	text  []byte
	spare int64 // bytes that were not written
}

func (k *prefixWriter) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.text = append(k.text, b...)
	return len(b), nil
}

func (k *prefixWriter) Spare() *backends.Skip {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.text) <= k.limit {
		return nil
	}
	return &backends.Skip{Done: func(n int64) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.spare += n
	}}
}

// check checks that a prefixWriter received all that it needs, not much more, and counted every other byte.
func (k *prefixWriter) check(t *testing.T, what string, all int64) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if got := int64(len(k.text)) + k.spare; got != all {
		t.Errorf("%s: %d bytes were carried and %d left out, of %d", what, len(k.text), k.spare, all)
	}
	if most := k.limit + 8*window; len(k.text) > most {
		t.Errorf("%s: %d bytes were carried, of which %d are needed", what, len(k.text), k.limit)
	}
}

// TestSpare runs a program that writes far more than its caller needs.
func TestSpare(t *testing.T) {
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		const all = 50_000_000
		out, errs := &prefixWriter{limit: 100_000}, &prefixWriter{limit: 1}
		r := runShell(t, s, fmt.Sprintf("head -c %d /dev/zero & head -c %[1]d /dev/zero >&2; wait; exit 3", all),
			backends.Streams{Stdout: out, Stderr: errs})
		out.check(t, "standard output", all)
		errs.check(t, "standard error", all)
		if r.ExitCode != 3 {
			t.Errorf("got %+v", r)
		}
	})
}

// counted counts the bytes read from a connection.
type counted struct {
	io.ReadWriteCloser
	n atomic.Int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// TestSpareFailed makes the caller's writer fail: unneeded output is not transferred.
func TestSpareFailed(t *testing.T) {
	ours, theirs := connPair(t, "stream")
	served := make(chan error, 1)
	go func() { served <- Serve(context.Background(), theirs, Facts{}, func(backends.Spec) {}, bareStart(t)) }()
	line := &counted{ReadWriteCloser: ours}
	l, err := Handshake(t.Context(), line)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Build(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	runShell(t, s, "head -c 50000000 /dev/zero", backends.Streams{
		Stdout: writerFunc(func([]byte) (int, error) { return 0, io.ErrShortWrite })})
	if n := line.n.Load(); n > 8*window {
		t.Errorf("%d bytes came for a writer that has failed", n)
	}
	s.Close()
	<-served
}

// TestSpareCells runs cells that write more than the caller needs: each cell keeps its own output, wherever a skip
// request meets the cell's mark.
func TestSpareCells(t *testing.T) {
	hosttest.Program(t, "python3")
	onBothConns(t, backends.Spec{Keep: true}, func(t *testing.T, s backends.Sandbox) {
		k, err := kernel.Start(t.Context(), renamed{s}, "python", backends.Command{Main: true})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		run := func(code string, limit int) (out, errs *prefixWriter) {
			out, errs = &prefixWriter{limit: limit}, &prefixWriter{limit: limit}
			o, err := k.Run(t.Context(), kernel.Cell{Code: code, Stdout: out, Stderr: errs, Timeout: time.Hour})
			if err != nil || o.Ended != "ok" {
				t.Fatalf("%.80s: %+v, %v", code, o, err)
			}
			return out, errs
		}
		run("import os, subprocess\ndef flood(fd, n):\n  while n: n -= os.write(fd, b'x' * min(n, 50000))", 0)
		for i := range hosttest.Rounds(60, 600) {
			n, limit := rand.IntN(1<<21), rand.IntN(1<<18)
			if i == 0 {
				n = 50_000_000
			}
			out, errs := run(fmt.Sprintf("flood(1, %d); flood(2, %[1]d)", n), limit)
			out.check(t, "standard output of a cell", int64(n))
			errs.check(t, "standard error of a cell", int64(n))
			if out, errs := run("print('next')", limit); string(out.text) != "next\n" || len(errs.text)+int(errs.spare+out.spare) > 0 {
				t.Fatalf("after %d bytes with %d needed: %q, %q", n, limit, out.text, errs.text)
			}
		}
		run("p = subprocess.Popen('while :; do echo noise; done', shell=True)", 1000)
		for range 5 {
			if out, _ := run("print('cell')", 1<<30); !bytes.Contains(out.text, []byte("cell\n")) {
				t.Errorf("beside a flood, a cell's output is not in %d bytes", len(out.text))
			}
		}
		run("p.kill(); p.wait()", 1<<30)
		run("", 1<<30)
		if out, _ := run("print('quiet')", 1<<30); strings.TrimSuffix(string(out.text), "quiet\n") != "" {
			t.Errorf("got %.200q", out.text)
		}
	})
}

// renamed resolves python for a bare sandbox.
type renamed struct{ backends.Sandbox }

func (r renamed) Exec(ctx context.Context, c backends.Command, s backends.Streams) (backends.Result, error) {
	c.Args = append([]string{"python3"}, c.Args[1:]...)
	return r.Sandbox.Exec(ctx, c, s)
}

// TestOutput sends skip requests at all times around the text that ends them, with every split of the stream.
func TestOutput(t *testing.T) {
	const mark = "\x00mark\x00"
	for _, tt := range []struct {
		name, before, skipped, want string
		keep                        int
		until                       bool
	}{
		{"up to the mark", "sent", "left out" + mark + "more", "sent<8>" + mark + "more", 0, true},
		{"a mark that was sent in part", "sent\x00ma", "rk\x00more", "sent\x00ma<0>rk\x00more", 0, true},
		{"a mark that was sent", "sent" + mark, "more", "sent" + mark + "<0>more", 0, true},
		{"no mark", "sent", "left out", "sent<8>", 0, true},
		{"the end", "sent", "left out and kept", "sent<13>kept", 4, false},
		{"all", "sent", "kept", "sent<0>kept", 100, false},
	} {
		for size := range 9 {
			r := httptest.NewRecorder()
			o := &output{to: &stream{w: r}, lasting: true}
			o.Write([]byte(tt.before))
			s := skip{Keep: tt.keep}
			if tt.until {
				s.Until = []byte(mark)
			}
			o.startSkip(s)
			for part := range slices.Chunk([]byte(tt.skipped), size+1) {
				o.Write(part)
			}
			o.endSkip()
			got := ""
			for in := r.Body; in.Len() > 0; {
				n, report, is, err := readPart(in)
				if err != nil {
					t.Fatal(err)
				}
				if got += string(in.Next(n * map[bool]int{false: 1}[is])); is {
					got += fmt.Sprintf("<%d>", report)
				}
			}
			if got != tt.want {
				t.Errorf("%s, in parts of %d: got %q, want %q", tt.name, size+1, got, tt.want)
			}
		}
	}
}

// TestPace saturates two connections.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pace
		begun := time.Now()
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				for range 60 << 20 / chunk {
					p.wait(chunk, nil)
				}
			})
		}
		all.Wait()
		if took, want := time.Since(begun), (120<<20-paceBurst)*time.Second/paceRate; took < want-time.Second || took > want+time.Second {
			t.Errorf("120 MiB took %v, want %v", took, want)
		}
		stop := make(chan struct{})
		close(stop)
		p.wait(1<<30, stop)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("a connection that has ended waits: %v", took)
		}
	})
}
