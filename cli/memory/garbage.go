// Package memory tunes memory use: the first garbage collection of a short command, and the memory of an idle server.
package memory

import (
	"os"
	"runtime"
	"runtime/debug"
)

// shortRoom is the heap size at the first garbage collection, in percent of Go's 4 MiB. A short run allocates less, and
// most of it is in use until its end.
const shortRoom = 800

// SpareFirst delays the first garbage collection to shortRoom. That collection restores the usual percentage, so that a
// long run does not use several times the memory that it needs.
func SpareFirst() {
	if os.Getenv("GOGC") == "" {
		runtime.AddCleanup(new([64]byte), func(usual int) { debug.SetGCPercent(usual) }, debug.SetGCPercent(shortRoom))
	}
}
