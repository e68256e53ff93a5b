package process

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestEndingsPaced has many sandboxes end at once, in both ways: no more are removed at a time than there is room for.
func TestEndingsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndings()
		var begun, running atomic.Int64
		gate := make(chan struct{})
		end := func() {
			begun.Add(1)
			running.Add(1)
			<-gate
			running.Add(-1)
		}
		var callers sync.WaitGroup
		most := cap(e.room)
		for range 2 * most {
			callers.Go(func() { e.do(end) })
			callers.Go(func() { e.wait(end) })
		}
		synctest.Wait()
		if got := running.Load(); got != int64(most) {
			t.Errorf("%d are removed at once, want %d", got, most)
		}
		close(gate)
		callers.Wait()
		e.all.Wait()
		if got := begun.Load(); got != 4*int64(most) || len(e.room) != 0 {
			t.Errorf("%d of %d were removed, %d places are taken", got, 4*most, len(e.room))
		}
	})
}
