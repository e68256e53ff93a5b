// Package status computes figures about the finished and running work of a pipeline.
package status

import (
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Stats are figures of a running server.
type Stats struct {
	Began    time.Time        `json:"began"`
	Running  int              `json:"running"` // taken slots of the queue
	Waiting  int              `json:"waiting"`
	Slots    int              `json:"slots"`
	Runs     map[string]int64 `json:"runs"`     // number of runs since Began, by their end
	Sessions map[string]int   `json:"sessions"` // number of sessions, by state
	Jobs     int              `json:"jobs"`     // running background runs
	// P50, P90 and P99 are percentiles of the last 1000 runs, from request to result, in milliseconds.
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	// Pools are the idle sandboxes: one entry for each backend and language.
	Pools []Pool `json:"pools,omitempty"`
}

// Now returns the figures of the server so far.
func Now(p *pipeline.Pipeline) Stats { return NowOf(p, func(string) bool { return true }) }

// NowOf returns the figures of some namespaces so far. Slots and Pools are those of the whole server.
func NowOf(p *pipeline.Pipeline, counts func(namespace string) bool) Stats {
	s := Stats{Began: p.Counters.Began, Runs: map[string]int64{}, Sessions: map[string]int{}}
	l := p.Load().ForNamespaces(counts)
	s.Running, s.Waiting, s.Slots = l.Running, l.Waiting, l.Slots
	var times []int64
	p.Counters.Mu.Lock()
	for namespace, runs := range p.Counters.Runs {
		if !counts(namespace) {
			continue
		}
		for ended, n := range runs {
			s.Runs[ended] += n
		}
	}
	for _, l := range p.Counters.Last {
		if counts(l.Namespace) {
			times = append(times, l.Micros)
		}
	}
	p.Counters.Mu.Unlock()
	slices.Sort(times)
	at := func(part float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return float64(times[int(part*float64(len(times)-1))]) / 1000
	}
	s.P50, s.P90, s.P99 = at(0.5), at(0.9), at(0.99)
	for _, info := range session.List(p, "") {
		if info.State != "dead" && counts(info.Namespace) {
			s.Sessions[info.State]++
		}
	}
	for _, j := range run.Jobs(p, "") {
		if j.State == "running" && counts(j.Namespace) {
			s.Jobs++
		}
	}
	s.Pools = pools(p)
	return s
}
