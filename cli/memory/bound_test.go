package memory

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestBoundGarbage: the limit follows what is in use, up and down, and is the operator's where the environment has one.
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
	follows("little is in use", func(limit int64) bool { return limit == lean })
	used := make([]byte, 2*lean)
	follows("much is in use", func(limit int64) bool { return limit > 2*lean && limit < 3*lean })
	runtime.KeepAlive(used)
	follows("little is in use again", func(limit int64) bool { return limit == lean })
}
