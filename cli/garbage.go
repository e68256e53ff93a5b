package cli

import (
	"runtime/debug"
	"runtime/metrics"
)

// garbageRoom is how many bytes a server may allocate, at least, before its garbage is collected again. Go collects when
// as much has been allocated as there is: with a few MB, a sixth of a busy server's CPU time went there.
const garbageRoom = 16 << 20

// mostGarbage is how much there may be of it, in percent of what is in use, until the next look at a heap that grows.
const mostGarbage = 400

// garbage decides when it is collected.
type garbage struct {
	percent int // as it was set last
	live    []metrics.Sample
}

func newGarbage() *garbage {
	return &garbage{percent: 100, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
}

// look sees how much is in use. To change what is set stops the server for a moment, so it is done in large steps.
func (g *garbage) look() {
	metrics.Read(g.live)
	if g.live[0].Value.Kind() != metrics.KindUint64 {
		return
	}
	if percent := g.wanted(g.live[0].Value.Uint64()); percent != g.percent {
		g.percent = percent
		debug.SetGCPercent(percent)
	}
}

// wanted is how much garbage there may be in percent of what is in use.
func (g *garbage) wanted(live uint64) int {
	percent := 100
	for percent < mostGarbage && live*uint64(percent)/100 < garbageRoom {
		percent *= 2
	}
	return percent
}
