package memory

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestBoundGarbage checks that the limit follows the heap up and down, and that the operator's limit takes precedence.
func TestBoundGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	unbounded := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(unbounded)
	t.Setenv("GOMEMLIMIT", "1GiB")
	BoundGarbage()
	if got := debug.SetMemoryLimit(-1); got != unbounded {
		t.Errorf("got %d in place of the operator's", got)
	}
	t.Setenv("GOMEMLIMIT", "")
	BoundGarbage()
	follows := func(what string, right func(int64) bool) {
		hosttest.Until(t, what, func() bool {
			runtime.GC()
			return right(debug.SetMemoryLimit(-1))
		})
	}
	follows("little is in use", func(limit int64) bool { return limit == leanHeap })
	used := make([]byte, 2*leanHeap)
	follows("much is in use", func(limit int64) bool { return limit > 2*leanHeap && limit < 3*leanHeap })
	runtime.KeepAlive(used)
	follows("little is in use again", func(limit int64) bool { return limit == leanHeap })
}
