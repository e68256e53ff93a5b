package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestSpareFirst checks that after the first collection garbage is collected as usual.
func TestSpareFirst(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	SpareFirst()
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	if metrics.Read(percent); percent[0].Value.Uint64() != shortRoom {
		t.Errorf("got %d percent, want %d", percent[0].Value.Uint64(), shortRoom)
	}
	hosttest.Until(t, "garbage is collected as usual", func() bool {
		runtime.GC()
		metrics.Read(percent)
		return percent[0].Value.Uint64() == 100
	})
}
