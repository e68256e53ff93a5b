package process

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestTeardownsPaced has many sandboxes end at once, in both ways: no more are removed at a time than there is room for.
func TestTeardownsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTeardowns()
		var begun, running atomic.Int64
		release := make(chan struct{})
		end := func() {
			begun.Add(1)
			running.Add(1)
			<-release
			running.Add(-1)
		}
		var callers sync.WaitGroup
		peak := cap(e.room)
		for range 2 * peak {
			callers.Go(func() { e.do(end) })
			callers.Go(func() { e.wait(end) })
		}
		synctest.Wait()
		if got := running.Load(); got != int64(peak) {
			t.Errorf("%d are removed at once, want %d", got, peak)
		}
		close(release)
		callers.Wait()
		e.all.Wait()
		if got := begun.Load(); got != 4*int64(peak) || len(e.room) != 0 {
			t.Errorf("%d of %d were removed, %d places are taken", got, 4*peak, len(e.room))
		}
	})
}
