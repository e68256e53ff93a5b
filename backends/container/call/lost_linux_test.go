package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// waitGoroutines waits until there are no more goroutines than before, or fails with their stacks.
func waitGoroutines(t *testing.T, before int) {
	t.Helper()
	defer func() {
		if all := make([]byte, 1<<20); t.Failed() {
			t.Logf("%s", all[:runtime.Stack(all, true)])
		}
	}()
	hosttest.Until(t, "there are no more goroutines than before", func() bool { return runtime.NumGoroutine() <= before })
}

// TestLost cuts the connection during every kind of operation.
func TestLost(t *testing.T) {
	for _, kind := range connKinds {
		t.Run(kind, func(t *testing.T) {
			before := runtime.NumGoroutine()
			for i := range hosttest.Rounds(20, 40) {
				cutConnection(t, kind, time.Duration(rand.Intn(1+i*2))*time.Millisecond, i%2 == 0)
			}
			waitGoroutines(t, before)
		})
	}
}

func cutConnection(t *testing.T, kind string, after time.Duration, server bool) {
	ours, theirs := connPair(t, kind)
	served := make(chan error, 1)
	go func() { served <- Serve(context.Background(), theirs, Facts{}, func(backends.Spec) {}, bareStart(t)) }()
	end := theirs
	if server {
		end = ours
	}
	time.AfterFunc(after, func() { end.Close() })
	ctx := t.Context()
	fine := func(err error) {
		if !errors.Is(err, ErrLost) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.EOF) {
			t.Errorf("after %v: got %v, want that the container has ended", after, err)
		}
	}
	l, err := Handshake(ctx, ours)
	if err != nil {
		fine(err)
		<-served
		return
	}
	s, err := l.Build(ctx, backends.Spec{Gateway: []int{1, 2}})
	if err != nil {
		fine(err)
		<-served
		return
	}
	var all sync.WaitGroup
	again := func(f func() error) {
		all.Go(func() {
			for {
				if err := f(); err != nil {
					fine(err)
					return
				}
			}
		})
	}
	for range 3 {
		again(func() error {
			_, err := s.Exec(ctx, backends.Command{Args: []string{"bash", "-c", "cat; sleep 0.01"}}, backends.Streams{
				Stdin: bytes.NewReader(make([]byte, 100_000)), Stdout: io.Discard, Stderr: io.Discard,
				Channel: func(c io.ReadWriteCloser) { all.Go(func() { io.Copy(io.Discard, c); c.Close() }) }})
			return err
		})
	}
	again(func() error {
		return s.Files().Put("f", 0o644, strings.NewReader(strings.Repeat("x", 100_000)))
	})
	again(func() error {
		_, err := s.Files().Each(ctx, func(f backends.File) error {
			r, err := f.Open()
			if err == nil {
				_, err = io.Copy(io.Discard, r)
				r.Close()
			}
			return err
		})
		return err
	})
	all.Go(func() {
		for {
			c, err := s.Gateway().Ports[0].Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	})
	all.Wait()
	<-l.Done()
	s.Close()
	<-served
}

// TestIdle: an idle connection reports its end.
func TestIdle(t *testing.T) {
	for _, kind := range connKinds {
		before := runtime.NumGoroutine()
		for _, server := range []bool{false, true} {
			ours, theirs := connPair(t, kind)
			served := make(chan error, 1)
			go func() {
				served <- Serve(context.Background(), theirs, Facts{PID: 1, Hostname: "h"}, func(backends.Spec) {}, bareStart(t))
			}()
			l, err := Handshake(t.Context(), ours)
			if err != nil || l.Facts().Hostname != "h" {
				t.Fatalf("got %+v, %v", l, err)
			}
			if server {
				l.Close()
			} else {
				theirs.Close()
			}
			<-l.Done()
			if _, err := l.Build(t.Context(), backends.Spec{}); !errors.Is(err, ErrLost) {
				t.Errorf("got %v, want that the container has ended", err)
			}
			if err := <-served; err != nil && !server && kind == "socket" && !errors.Is(err, net.ErrClosed) {
				t.Errorf("served: %v", err)
			}
		}
		waitGoroutines(t, before)
	}
}

// TestSilent: the wait for a silent init is bounded.
func TestSilent(t *testing.T) {
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Handshake(ctx, ours); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it was too late", err)
	}
	theirs.Close()

	ours, theirs = net.Pipe()
	go writeMessage(theirs, greeting{Version: version + 1})
	if _, err := Handshake(t.Context(), ours); err == nil || !strings.Contains(err.Error(), fmt.Sprint("version ", version+1)) {
		t.Errorf("got %v, want that it is of another version", err)
	}

	l, _ := newPuppet(t, func(conn io.ReadWriteCloser) { io.Copy(io.Discard, conn) })
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Build(ctx, backends.Spec{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that it was too late", err)
	}

	// It accepts a command, and does nothing.
	before := runtime.NumGoroutine()
	l, s := answerAll(t, backends.Spec{}, func(w http.ResponseWriter, r *http.Request, _ request) { <-r.Context().Done() })
	l.initTimeout = 300 * time.Millisecond
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Exec(ctx, backends.Command{Args: []string{"x"}}, backends.Streams{Stdout: io.Discard}); !errors.Is(err, ErrLost) {
		t.Errorf("got %v, want that the container has ended", err)
	}
	l.Close()
	waitGoroutines(t, before)
}

// newPuppet starts an init that a test controls. It returns after the greeting.
func newPuppet(t testing.TB, f func(io.ReadWriteCloser)) (*Conn, chan struct{}) {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		writeMessage(theirs, greeting{Version: version})
		f(theirs)
		theirs.Close()
	}()
	l, err := Handshake(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); <-done })
	return l, done
}
