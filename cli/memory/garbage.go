// Package memory tunes how much memory a process of ours takes: when a short command first collects garbage, and what
// an idle server gives back.
package memory

import (
	"os"
	"runtime"
	"runtime/debug"
)

// shortRoom is how many bytes a command may allocate before its garbage is collected for the first time, in percent of
// the 4 MiB after which Go does: a short run allocates less, and most of it is in use until its end.
const shortRoom = 800

// SpareFirst delays the first garbage collection to shortRoom. That collection restores the usual percentage, so that a
// long run does not keep several times the memory that it needs.
func SpareFirst() {
	if os.Getenv("GOGC") == "" {
		runtime.AddCleanup(new([64]byte), func(usual int) { debug.SetGCPercent(usual) }, debug.SetGCPercent(shortRoom))
	}
}
