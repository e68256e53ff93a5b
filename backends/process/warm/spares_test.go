package warm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sleep lets time pass, and waits for everything due by then.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// spare is a spare without a process.
type spare struct{ bad, gone atomic.Bool }

func (s *spare) Good() bool { return !s.bad.Load() }
func (s *spare) Remove()    { s.gone.Store(true) }

// TestSpares acquires items that are ready, in the making, gone bad, or failed; Close removes the unused ones.
func TestSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Spares[*spare]{Enough: 1, Bound: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		}}
		var mu sync.Mutex
		var made []*spare
		var failing atomic.Bool
		begin := func(context.Context) (*spare, error) {
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			if failing.Load() {
				return nil, errors.New("no")
			}
			made = append(made, new(spare))
			return made[len(made)-1], nil
		}
		number := 0
		take := func(what string, want time.Duration) {
			t.Helper()
			begun := time.Now()
			one, err := s.Acquire(t.Context(), "key", begin)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || one != made[number] || time.Since(begun) != want {
				t.Fatalf("%s: %v after %v, want %v, number %d: %v", what, one, time.Since(begun), want, number, err)
			}
			number++
		}
		take("nothing is ready", time.Second)
		sleep(time.Second)
		take("one is ready", 0)
		time.Sleep(400 * time.Millisecond)
		take("one is on its way", 600*time.Millisecond)
		sleep(time.Second)
		made[number].bad.Store(true)
		number++
		take("it is bad", time.Second)
		failing.Store(true)
		sleep(time.Second)
		failing.Store(false)
		take("it failed", time.Second)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Acquire(short, "key", begin); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gave up got %v", err)
		}
		s.Close()
		for i, one := range made {
			if taken := i < number && i != 3; one.gone.Load() == taken {
				t.Errorf("number %d of %d was removed: %v", i, len(made), !taken)
			}
		}
		if len(made) != number+2 {
			t.Errorf("%d were made, want %d", len(made), number+2)
		}
		s.Fill("key", 1, begin)
		if n := len(s.coming["key"]); n > 0 {
			t.Errorf("%d are made after the end", n)
		}
	})
}
