package keyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/vault/keyring/keyringtest"
)

func TestKeyring(t *testing.T) {
	keyringtest.Start(t)
	r, ctx := New(), t.Context()
	if _, err := r.Get(ctx, "sandboxmcp", "a/KEY"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of an empty keyring: %v", err)
	}
	if err := r.Delete(ctx, "sandboxmcp", "a/KEY"); !errors.Is(err, ErrNotFound) {
		t.Errorf("delete from an empty keyring: %v", err)
	}
	long := strings.Repeat("0123456789abcdef\n", 6000)
	for _, text := range []string{"first", "second\nline", long} {
		if err := r.Set(ctx, "sandboxmcp", "a/KEY", text); err != nil {
			t.Fatal(err)
		}
		if got, err := New().Get(ctx, "sandboxmcp", "a/KEY"); got != text || err != nil {
			t.Errorf("got %d bytes, want %d, %v", len(got), len(text), err)
		}
	}
	for _, at := range [][2]string{{"sandboxmcp", "b/KEY"}, {"other", "a/KEY"}, {"sandboxmcp", "a/KE"}} {
		if _, err := r.Get(ctx, at[0], at[1]); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: %v", at, err)
		}
	}
	if err := r.Delete(ctx, "sandboxmcp", "a/KEY"); err != nil {
		t.Error(err)
	}
	if _, err := r.Get(ctx, "sandboxmcp", "a/KEY"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// TestUnavailable: without a keyring, every call reports that with a command to type, also if a keyring never
// answers.
func TestUnavailable(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T)
		says    string
	}{
		"no bus": {func(t *testing.T) {
			if _, err := os.Stat(fmt.Sprintf("/run/user/%d/bus", os.Getuid())); err == nil {
				t.Skip("this user has a session bus")
			}
			t.Setenv("DBUS_SESSION_BUS_ADDRESS", "")
		}, "no session bus"},
		"bus is gone": {func(t *testing.T) { t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+t.TempDir()+"/gone") }, "can't be reached"},
		"no keyring":  {func(t *testing.T) { keyringtest.StartBus(t) }, "no program offers it"},
		"locked":      {func(t *testing.T) { keyringtest.Start(t).Lock(t) }, "locked"},
		"hangs": {func(t *testing.T) {
			p := keyringtest.Start(t).Process()
			p.Signal(syscall.SIGSTOP)
			t.Cleanup(func() { p.Signal(syscall.SIGCONT) })
		}, "not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			c.prepare(t)
			r := New()
			calls := map[string]func() error{
				"get":    func() error { _, err := r.Get(t.Context(), "sandboxmcp", "a/KEY"); return err },
				"set":    func() error { return r.Set(t.Context(), "sandboxmcp", "a/KEY", "secret-"+"value") },
				"delete": func() error { return r.Delete(t.Context(), "sandboxmcp", "a/KEY") },
			}
			var asked sync.WaitGroup // in parallel, since a hanging one takes as long as Wait
			for call, f := range calls {
				asked.Go(func() {
					if err := f(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret-") {
						t.Errorf("%s: got %v", call, err)
					}
				})
			}
			asked.Wait()
		})
	}
}

// TestComesBack: a keyring that disappeared and returned is found again.
func TestComesBack(t *testing.T) {
	b := keyringtest.Start(t)
	r := New()
	if err := r.Set(t.Context(), "sandboxmcp", "a/KEY", "kept"); err != nil {
		t.Fatal(err)
	}
	b.Stop(t)
	if _, err := r.Get(t.Context(), "sandboxmcp", "a/KEY"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("stopped: %v", err)
	}
	b.Unlock(t)
	if got, err := r.Get(t.Context(), "sandboxmcp", "a/KEY"); got != "kept" || err != nil {
		t.Errorf("started again: got %q, %v", got, err)
	}
}

// TestAsk: hanging calls are bounded in number, a cancelled one ends at once, and a panic is an error.
func TestAsk(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none")
	r := New()
	if _, err := r.callWithin(t.Context(), func() (string, error) { panic("nil signal") }); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a panic: %v", err)
	}
	hang := make(chan struct{})
	defer close(hang)
	var begun atomic.Int32
	for range 2 * maxAbandoned {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := r.callWithin(ctx, func() (string, error) { begun.Add(1); <-hang; return "", nil })
		stop()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	}
	hosttest.Until(t, "those that may have begun", func() bool { return begun.Load() >= maxAbandoned })
	if n := begun.Load(); n != maxAbandoned {
		t.Errorf("%d calls were made, want %d", n, maxAbandoned)
	}
}
