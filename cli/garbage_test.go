package cli

import (
	"runtime"
	"testing"
)

// TestGarbage: small heaps have room, and large ones no more garbage than Go gives them by itself.
func TestGarbage(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want int
	}{
		{0, 400}, {3 << 20, 400}, {5 << 20, 400}, {8 << 20, 200}, {15 << 20, 200}, {16 << 20, 100}, {1 << 30, 100},
	} {
		if got := newGarbage().wanted(test.live); got != test.want {
			t.Errorf("%d MB in use: got %d percent, want %d", test.live>>20, got, test.want)
		}
	}
	runtime.GC() // which counts
	g := newGarbage()
	if g.look(); g.live[0].Value.Uint64() == 0 {
		t.Error("nothing is in use")
	}
}
