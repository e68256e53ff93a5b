package memory

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// lean is the memory, in bytes, up to which garbage is collected as usual. Above it there is a quarter more than what
// is in use, at most: the usual is as much again.
const lean = 96 << 20

// overhead is what the runtime needs beside the heap, in bytes, about.
const overhead = 32 << 20

// BoundGarbage has garbage be collected earlier once a server takes more than lean. It looks after each collection how
// much is in use. Where the environment says how much memory there is, that holds.
func BoundGarbage() {
	if os.Getenv("GOMEMLIMIT") == "" && os.Getenv("GOGC") == "" {
		boundGarbage()
	}
}

// boundGarbage sets the limit for what is in use now, and again after each collection.
func boundGarbage() {
	inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(inUse)
	debug.SetMemoryLimit(max(lean, int64(inUse[0].Value.Uint64())*5/4+overhead))
	runtime.AddCleanup(new([64]byte), func(int) { boundGarbage() }, 0)
}
