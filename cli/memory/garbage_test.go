package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestGarbage: small heaps have room, and large ones no more garbage than Go gives them by itself.
func TestGarbage(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want int
	}{
		{0, 400}, {3 << 20, 400}, {5 << 20, 400}, {8 << 20, 200}, {15 << 20, 200}, {16 << 20, 100}, {1 << 30, 100},
	} {
		if got := newGarbageTuner().percentFor(test.live); got != test.want {
			t.Errorf("%d MB in use: got %d percent, want %d", test.live>>20, got, test.want)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	much := make([]byte, 64<<20)
	runtime.GC() // which counts
	g := newGarbageTuner()
	if live := g.live(); live < 64<<20 || live > 256<<20 {
		t.Errorf("%d MB are in use", live>>20)
	}
	runtime.KeepAlive(much)
}

// TestSpareFirst: after the first collection garbage is collected as usual, however much was spared before it.
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
