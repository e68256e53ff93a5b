package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Row is a figure that we aim at.
type Row struct {
	What       string  `json:"what"`
	Measured   float64 `json:"measured"`
	Target     float64 `json:"target,omitempty"` // none where it is 0
	AtLeast    bool    `json:"at_least"`         // that the target is, rather than at most
	Bubblewrap float64 `json:"bubblewrap,omitempty"`
}

// goals are targets that differ by language.
type goals struct{ once, rate, overBubblewrap, slot float64 }

func goalsOf(language string) goals {
	return map[string]goals{
		"python": {once: 0.25, rate: 1, slot: 4},
		"node":   {once: 0.35, rate: 0.9, slot: 12},
		"shell":  {once: 1, rate: 0.6, overBubblewrap: 2.5, slot: 1},
	}[language]
}

// rows puts what was measured beside what we aim at. What was not measured has no row.
func (r *Report) rows(u used) {
	bash := r.p50("shell", Bare)
	for _, l := range Languages() {
		r.max("execute_code, "+l+": time x bare", ratio(r.p50(l, Warm), r.p50(l, Bare)), goalsOf(l).once, ratio(r.p50(l, Bubblewrap), r.p50(l, Bare)))
	}
	for _, l := range Languages() {
		ours, others := r.load(l, Warm), r.load(l, Bubblewrap)
		at := fmt.Sprintf("%d at a time, %s: ", ours.Concurrency, l)
		r.atLeast(at+"runs a second x bare", ours.Ratio, goalsOf(l).rate, others.Ratio)
		r.atLeast(at+"runs a second x bubblewrap", ratio(ours.PerSecond, others.PerSecond), goalsOf(l).overBubblewrap, 0)
		r.max(at+"p99 / p50", ours.Tail, 3, others.Tail)
	}
	for _, l := range Languages() {
		r.max("cell of a session, "+l+": time x bare bash", ratio(r.p50(l, Session), bash), 0.2, 0)
	}
	r.added("cold sandbox", Cold, 0.6)
	r.max("sandboxmcp version: time x the least Go program", ratio(r.p50(Start, Version), r.p50(Start, Bare)), 2, 0)
	r.added("run", FromBash, 2)
	r.added("run, served", Served, 1)
	r.max("server's CPU time for a shell run x bare bash's", ratio(u.server, u.bash), 0.5, 0)
	r.max("server, idle: RSS in MB", u.idle, 40, 0)
	r.max("server, after the load: RSS in MB", u.loaded, 0, 0)
	for _, l := range Languages() {
		r.max("idle sandbox, "+l+": PSS in MB", u.slot[l], goalsOf(l).slot, 0)
	}
}

// added are rows of what a way adds to the bare command, as a part of what bubblewrap adds.
func (r *Report) added(what, variant string, target float64) {
	for _, l := range Languages() {
		ours, bare, others := r.p50(l, variant), r.p50(l, Bare), r.p50(l, Bubblewrap)
		if ours > 0 && bare > 0 && others > bare {
			r.Rows = append(r.Rows, Row{What: what + ", " + l + ": added time x bubblewrap's", Measured: ratio(ours-bare, others-bare), Target: target})
		}
	}
}

func (r *Report) max(what string, measured, target, bubblewrap float64) {
	if measured > 0 {
		r.Rows = append(r.Rows, Row{What: what, Measured: measured, Target: target, Bubblewrap: bubblewrap})
	}
}

func (r *Report) atLeast(what string, measured, target, bubblewrap float64) {
	if measured > 0 {
		r.Rows = append(r.Rows, Row{What: what, Measured: measured, Target: target, AtLeast: true, Bubblewrap: bubblewrap})
	}
}

// Spread is how long runs took, in milliseconds to a microsecond. Each figure is one run's that was really
// measured: pN is the shortest time that N of 100 runs did not exceed.
type Spread struct {
	Runs int     `json:"runs"`
	Min  float64 `json:"min_ms"`
	P10  float64 `json:"p10_ms"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
}

func spread(taken []sample) Spread {
	if len(taken) == 0 {
		return Spread{}
	}
	sorted := slices.SortedFunc(slices.Values(taken), func(a, b sample) int { return cmp.Compare(a.took, b.took) })
	at := func(percent int) float64 {
		rank := (len(sorted)*percent + 99) / 100 // rounded up: the nearest rank
		return round(float64(sorted[max(rank, 1)-1].took) / float64(time.Millisecond))
	}
	return Spread{Runs: len(sorted), Min: at(0), P10: at(10), P50: at(50), P90: at(90), P99: at(99), Max: at(100)}
}

// round keeps three decimals.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }

// ratio is 0 where there is nothing to compare.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return round(a / b)
}
