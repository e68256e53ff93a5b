package lazy

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestCache checks that answers expire, and that their number is bounded.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Cache[int]
		if got, ok := a.Get("a", time.Minute); ok {
			t.Errorf("got %d of nothing", got)
		}
		a.Store("a", 1)
		time.Sleep(30 * time.Second)
		if got, ok := a.Get("a", time.Minute); !ok || got != 1 {
			t.Errorf("got %d %v", got, ok)
		}
		time.Sleep(30 * time.Second)
		if got, ok := a.Get("a", time.Minute); ok {
			t.Errorf("after a minute: got %d", got)
		}
		for i := range 10 * maxCached {
			a.Store(strconv.Itoa(i), i)
		}
		if got, ok := a.Get(strconv.Itoa(10*maxCached-1), time.Minute); !ok || got != 10*maxCached-1 || len(a.all) > maxCached {
			t.Errorf("got %d %v, of %d", got, ok, len(a.all))
		}
	})
}
