// Package memory tunes how much memory a process of ours takes: when garbage is collected, and what an idle server gives back.
package memory

import (
	"os"
	"runtime"
	"runtime/debug"
)

// garbageRoom is how many bytes a server may allocate, at least, before its garbage is collected again. Go collects when
// as much has been allocated as there is: with a few MB, a sixth of a busy server's CPU time went there.
const garbageRoom = 16 << 20

// maxGarbage is how much there may be of it, in percent of what is in use, until the next look at a heap that grows.
const maxGarbage = 400

// shortRoom is how many bytes a command may allocate before its garbage is collected for the first time, in percent of the
// 4 MiB after which Go does: a short run allocates less, and most of it is in use until its end.
const shortRoom = 800

// SpareFirst delays the first garbage collection to shortRoom. That collection restores the usual percentage, so that a
// long run does not keep several times the memory that it needs.
func SpareFirst() {
	if os.Getenv("GOGC") == "" {
		runtime.AddCleanup(new([64]byte), func(usual int) { debug.SetGCPercent(usual) }, debug.SetGCPercent(shortRoom))
	}
}

// garbageTuner decides when it is collected.
type garbageTuner struct {
	percent int // as it was set last
	stats   runtime.MemStats
}

func newGarbageTuner() *garbageTuner { return &garbageTuner{percent: 100} }

// adjust sees how much is in use. To change what is set stops the server for a moment, so it is done in large steps.
func (g *garbageTuner) adjust() {
	if percent := g.percentFor(g.live()); percent != g.percent {
		g.percent = percent
		debug.SetGCPercent(percent)
	}
}

// live returns how many bytes were in use after the last collection. Package runtime/metrics has that number, too, and makes
// a table of all that it has at each start, also of each sandbox's launcher.
func (g *garbageTuner) live() uint64 {
	runtime.ReadMemStats(&g.stats)
	return g.stats.NextGC / uint64(100+g.percent) * 100
}

// percentFor returns how much garbage there may be in percent of what is in use.
func (g *garbageTuner) percentFor(live uint64) int {
	percent := 100
	for percent < maxGarbage && live*uint64(percent)/100 < garbageRoom {
		percent *= 2
	}
	return percent
}
