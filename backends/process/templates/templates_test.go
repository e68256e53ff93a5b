package templates

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// template is a template without a process.
type template struct {
	Use
	bad  atomic.Bool
	gone atomic.Int32 // number of removals
}

func (t *template) Good() bool { return !t.bad.Load() && t.gone.Load() == 0 }
func (t *template) Remove()    { t.gone.Add(1) }

func newTemplate(context.Context) (*template, error) { return new(template), nil }

// spawn has a template of a key spawn a process, which lives on.
func spawn(t *testing.T, of *Set[*template], key string) *template {
	t.Helper()
	one, err := of.Acquire(t.Context(), key, newTemplate)
	if err != nil {
		t.Fatal(err)
	}
	one.Spawned()
	return one
}

// TestTemplateRetired checks how long a template serves, and that it ends with the last process that it spawned,
// and no sooner.
func TestTemplateRetired(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		do     func(*testing.T, *Set[*template], *template)
		want   bool // another replaces it
	}{
		{"nothing", Limits{}, func(*testing.T, *Set[*template], *template) {}, false},
		{"no longer good", Limits{}, func(_ *testing.T, _ *Set[*template], one *template) { one.bad.Store(true) }, true},
		{"failed to spawn", Limits{}, func(_ *testing.T, of *Set[*template], one *template) { of.Drop(one, nil); of.Drop(one, nil) }, true},
		{"few spawns", Limits{Uses: 2}, func(*testing.T, *Set[*template], *template) {}, false},
		{"many spawns", Limits{Uses: 1}, func(*testing.T, *Set[*template], *template) {}, true},
		{"young", Limits{Age: time.Hour}, func(*testing.T, *Set[*template], *template) { time.Sleep(time.Hour) }, false},
		{"old", Limits{Age: time.Hour}, func(*testing.T, *Set[*template], *template) { time.Sleep(time.Hour + 1) }, true},
		{"not used for long", Limits{}, func(_ *testing.T, of *Set[*template], _ *template) { time.Sleep(2 * time.Nanosecond); of.Tidy(1) },
			true},
		{"used", Limits{}, func(_ *testing.T, of *Set[*template], _ *template) { of.Tidy(1) }, false},
		{"others are used", Limits{All: 2}, func(t *testing.T, of *Set[*template], _ *template) {
			for i := range 2 {
				time.Sleep(time.Nanosecond)
				spawn(t, of, fmt.Sprint(i))
			}
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				of := New[*template](c.limits)
				first := spawn(t, of, "key")
				c.do(t, of, first)
				second := spawn(t, of, "key")
				if (second != first) != c.want {
					t.Fatalf("another takes its place: got %v, want %v", second != first, c.want)
				}
				second.Release()
				synctest.Wait()
				if first.gone.Load() > 0 {
					t.Error("it ended before what it spawned")
				}
				first.Release()
				synctest.Wait()
				if n := first.gone.Load(); n > 1 || (n == 1) != c.want {
					t.Errorf("it ended %d times with the last that it spawned, want so: %v", n, c.want)
				}
			})
		})
	}
}

// TestTemplateReleasedWhileClosing ends a given up template while Close waits for another.
func TestTemplateReleasedWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := New[*slow](Limits{})
		begin := func(context.Context) (*slow, error) { return &slow{end: make(chan struct{})}, nil }
		var both []*slow
		for _, key := range []string{"stuck", "other"} {
			one, err := of.Acquire(t.Context(), key, begin)
			if err != nil {
				t.Fatal(err)
			}
			one.Spawned()
			both = append(both, one)
		}
		of.Drop(both[0], nil)
		closed := make(chan struct{})
		go func() { of.Close(); close(closed) }()
		synctest.Wait()
		both[0].Release() // at last
		close(both[1].end)
		synctest.Wait()
		select {
		case <-closed:
		default:
			t.Error("Close waits for what began to end after it")
		}
		close(both[0].end)
		synctest.Wait()
	})
}

// slow is a template whose end waits for a signal.
type slow struct {
	Use
	end chan struct{}
}

func (s *slow) Good() bool { return true }
func (s *slow) Remove()    { <-s.end }

// TestTemplatesAtWork checks that another template is started if all are busy, up to the limit.
func TestTemplatesAtWork(t *testing.T) {
	of := New[*template](Limits{Each: 2})
	var all []*template
	for range 3 {
		one, err := of.Acquire(t.Context(), "key", newTemplate)
		if err != nil || !one.Busy() {
			t.Fatal(one.Busy(), err)
		}
		all = append(all, one)
	}
	if all[0] == all[1] || all[2] != all[0] && all[2] != all[1] {
		t.Error("want two templates, and the third spawn by one of them")
	}
	all[1].Spawned()
	if all[2] == all[1] {
		all[1].Spawned()
	}
	if one := spawn(t, of, "key"); one != all[1] {
		t.Error("the idle one was not asked")
	}
}

// TestTemplateFails checks how long a failure is remembered, and of how many keys.
func TestTemplateFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := New[*template](Limits{PauseFirst: time.Second, PauseMax: 3 * time.Second})
		why := errors.New("no")
		tries := 0
		fail := func(context.Context) (*template, error) { tries++; return nil, why }
		for i, pause := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			for _, after := range []time.Duration{pause - 1, 1} {
				if _, err := of.Acquire(t.Context(), "key", fail); err != why || tries != i+1 {
					t.Fatalf("tried %d times before the pause of %v: %v", tries, pause, err)
				}
				time.Sleep(after)
			}
		}
		if of.Ready("key") {
			t.Error("what failed is ready")
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		of.Acquire(cancelled, "other", fail)
		spawn(t, of, "other") // the failure does not concern it
		of.Drop(spawn(t, of, "dropped"), why)
		if _, err := of.Acquire(t.Context(), "dropped", newTemplate); err != why {
			t.Errorf("after it was dropped for a reason: %v", err)
		}
		for i := range 2 * maxFailures {
			of.Acquire(t.Context(), fmt.Sprint(i), fail)
			time.Sleep(time.Nanosecond)
		}
		if n := len(of.failed); n > maxFailures {
			t.Errorf("%d failures are remembered", n)
		}
		spawn(t, of, "0") // forgotten
	})
}

// TestTemplateStarts has a start take for ever: only callers with the same key wait, and may give up.
func TestTemplateStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := New[*template](Limits{PauseFirst: time.Hour, PauseMax: time.Hour})
		stuck := make(chan error, 1)
		go func() {
			_, err := of.Acquire(t.Context(), "stuck", func(ctx context.Context) (*template, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			stuck <- err
		}()
		synctest.Wait()
		spawn(t, of, "other")
		if of.Ready("stuck") || !of.Ready("other") {
			t.Error("what is being started is ready, or what runs is not")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := of.Acquire(short, "stuck", newTemplate); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who waits got %v", err)
		}
		if !of.Tidy(0) {
			t.Error("nothing is left, while one is being started")
		}
		of.Close()
		if err := <-stuck; !errors.Is(err, context.Canceled) {
			t.Errorf("who starts it got %v", err)
		}
		if _, err := of.Acquire(t.Context(), "other", newTemplate); err != ErrClosed {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestTemplatesClosed checks that Close ends running templates, and those started meanwhile.
func TestTemplatesClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := New[*template](Limits{})
		runs, late := spawn(t, of, "runs"), new(template)
		go of.Acquire(t.Context(), "late", func(context.Context) (*template, error) {
			time.Sleep(time.Second)
			return late, nil
		})
		synctest.Wait()
		of.Close()
		if a, b := runs.gone.Load(), late.gone.Load(); a != 1 || b != 1 {
			t.Errorf("ended %d times, and what was started late %d times", a, b)
		}
	})
}
