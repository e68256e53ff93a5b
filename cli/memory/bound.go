package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leanHeap is the heap size, in bytes, below which garbage is collected as usual. Above it, the heap may grow by a quarter,
// instead of by its own size.
const leanHeap = 96 << 20

// runtimeOverhead is the approximate memory of the runtime in addition to the heap, in bytes.
const runtimeOverhead = 32 << 20

// BoundGarbage collects garbage earlier once a server uses more than lean. It adapts the limit after each collection.
// GOMEMLIMIT in the environment takes precedence.
func BoundGarbage() {
	if os.Getenv("GOMEMLIMIT") == "" && os.Getenv("GOGC") == "" {
		boundGarbage()
	}
}

// boundGarbage sets the limit for the current heap, and again after each collection.
func boundGarbage() {
	inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(inUse)
	debug.SetMemoryLimit(max(leanHeap, int64(inUse[0].Value.Uint64())*5/4+runtimeOverhead))
	runtime.AddCleanup(new([64]byte), func(int) { boundGarbage() }, 0)
}
