package door

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestOneCrowd: one client takes no more than its share of the slots, all clients leave some to the machine's own
// command line, and each slot that is given back serves the next.
func TestOneCrowd(t *testing.T) {
	s := NewSlots("watch", 30, 10, 7)
	leave := map[string][]func(){}
	take := func(client string) error {
		_, release, err := s.Acquire(t.Context(), client)
		if err == nil {
			leave[client] = append(leave[client], release)
		}
		return err
	}
	fill := func(client string) int {
		for take(client) == nil {
		}
		return len(leave[client])
	}
	if a, b, c := fill("ada"), fill("bob"), fill(""); a != 10 || b != 10 || c != 10 || s.Taken() != 30 {
		t.Errorf("got %d, %d, %d of %d", a, b, c, s.Taken())
	}
	if err := take(""); err == nil || err.Error() != "30 clients watch already" {
		t.Errorf("one more: %v", err)
	}
	leave[""][0]()
	leave[""][0]() // counts once
	if err := take("bob"); err == nil || s.Taken() != 29 {
		t.Errorf("one too many: %v, %d", err, s.Taken())
	}
	for _, release := range leave[""][1:8] {
		release()
	}
	if err := take("bob"); err == nil || err.Error() != "10 clients of bob watch already" {
		t.Errorf("more than a share: %v", err)
	}
	leave["bob"][0]()
	if err := take("bob"); err != nil {
		t.Error(err)
	}
}

// TestSlotsStop: a waiting request gets the next slot, and a request that has one ends with the server.
func TestSlotsStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSlots("read", 1, 1, 0)
		_, first, err := s.Acquire(t.Context(), "ada")
		if err != nil {
			t.Fatal(err)
		}
		hurried, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("gone"))
		if _, _, err := s.WaitAcquire(hurried, "bob"); err == nil || err.Error() != "gone" {
			t.Errorf("got %v", err)
		}
		served := make(chan context.Context, 1)
		go func() {
			ctx, release, err := s.WaitAcquire(t.Context(), "bob")
			if err != nil {
				t.Error(err)
			}
			served <- ctx
			<-ctx.Done()
			release()
		}()
		synctest.Wait()
		if len(served) > 0 {
			t.Error("a second one is served")
		}
		first()
		ctx := <-served
		s.Stop()
		s.Wait()
		if ctx.Err() == nil || s.Taken() != 0 {
			t.Errorf("it goes on: %d", s.Taken())
		}
		if _, _, err := s.WaitAcquire(t.Context(), "ada"); err == nil || err.Error() != "the server is shutting down" {
			t.Errorf("got %v", err)
		}
	})
}
