package session

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestLine: places are had in the order in which they were taken, and those of two sessions never wait for each other.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &Manager{}
		one, two := &Session{manager: k, dead: make(chan struct{})}, &Session{manager: k, dead: make(chan struct{})}
		var order []string
		uses := func(name string, ctx context.Context, done func(), in ...*Session) {
			go func() {
				defer done()
				for _, s := range in {
					leave, err := s.Wait(ctx)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					order = append(order, name)
					leave()
				}
			}()
		}
		first, both, crossed, last := k.Enqueue(one), k.Enqueue(one, two), k.Enqueue(two, one), k.Enqueue(one)
		uses("last", last.WithContext(t.Context()), last.Leave, one)
		uses("crossed", crossed.WithContext(t.Context()), crossed.Leave, two, one)
		uses("both", both.WithContext(t.Context()), both.Leave, one, two)
		uses("after it", t.Context(), func() {}, one)
		synctest.Wait()
		if order != nil {
			t.Errorf("%v went before the first", order)
		}
		cancelled, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		if _, err := two.Wait(cancelled); err != gone {
			t.Errorf("got %v", err)
		}
		held := RetainTicket(first.WithContext(t.Context()))
		first.Leave()
		synctest.Wait()
		if order != nil || held != first {
			t.Errorf("%v went before one who holds the first place", order)
		}
		held.Leave()
		synctest.Wait()
		if RetainTicket(first.WithContext(t.Context())) != nil {
			t.Error("a place is held that was left")
		}
		if want := []string{"both", "both", "crossed", "crossed", "last", "after it"}; len(order) != len(want) {
			t.Errorf("got %v", order)
		} else {
			for i := range want {
				if order[i] != want[i] {
					t.Errorf("got %v, want %v", order, want)
					break
				}
			}
		}
		if len(one.line)+len(two.line) != 0 {
			t.Errorf("%d and %d are left in line", len(one.line), len(two.line))
		}
	})
}
