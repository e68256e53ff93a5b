package pipeline

import (
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Stats are figures of a running server.
type Stats struct {
	Began    time.Time        `json:"began"`
	Running  int              `json:"running"` // slots of the queue that are taken
	Waiting  int              `json:"waiting"`
	Slots    int              `json:"slots"`
	Runs     map[string]int64 `json:"runs"`     // how many ended in which way, since Began
	Sessions map[string]int   `json:"sessions"` // how many there are in which state
	Jobs     int              `json:"jobs"`     // runs in the background that still run
	// P50, P90 and P99 are of the last 1000 runs, from request to result, in milliseconds.
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	// Pools are what is kept ready for programs that may come: one for each backend and language.
	Pools []Pool `json:"pools,omitempty"`
}

// counters counts runs of each namespace by how they ended, and holds the times of the last.
type counters struct {
	began time.Time

	mu   sync.Mutex
	runs map[string]map[string]int64
	last []lap
}

// lap is how long a run took, from request to result.
type lap struct {
	namespace string
	micros    int64
}

// maxCounted is how many namespaces are counted by themselves: clients choose their names. The runs of further ones count for "" alone.
const maxCounted = 1000

// lastRuns is of how many runs the percentiles are.
const lastRuns = 1000

func (t *counters) add(r Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := r.Namespace
	if t.runs[of] == nil && len(t.runs) >= maxCounted {
		of = ""
	}
	if t.runs[of] == nil {
		t.runs[of] = map[string]int64{}
	}
	t.runs[of][r.Ended]++
	if r.Timings.Total == 0 {
		return
	}
	t.last = append(t.last, lap{of, r.Timings.Total})
	t.last = t.last[max(0, len(t.last)-lastRuns):]
}

// Stats returns the figures of the server so far.
func (p *Pipeline) Stats() Stats { return p.StatsOf(func(string) bool { return true }) }

// StatsOf returns the figures of some namespaces so far. Slots and Pools are those of the whole server.
func (p *Pipeline) StatsOf(counts func(namespace string) bool) Stats {
	s := Stats{Began: p.counters.began, Runs: map[string]int64{}, Sessions: map[string]int{}}
	l := p.Load().Of(counts)
	s.Running, s.Waiting, s.Slots = l.Running, l.Waiting, l.Slots
	var times []int64
	p.counters.mu.Lock()
	for namespace, runs := range p.counters.runs {
		if !counts(namespace) {
			continue
		}
		for ended, n := range runs {
			s.Runs[ended] += n
		}
	}
	for _, l := range p.counters.last {
		if counts(l.namespace) {
			times = append(times, l.micros)
		}
	}
	p.counters.mu.Unlock()
	slices.Sort(times)
	at := func(part float64) float64 {
		if len(times) == 0 {
			return 0
		}
		return float64(times[int(part*float64(len(times)-1))]) / 1000
	}
	s.P50, s.P90, s.P99 = at(0.5), at(0.9), at(0.99)
	for _, info := range p.sessions.List("") {
		if info.State != "dead" && counts(info.Namespace) {
			s.Sessions[info.State]++
		}
	}
	for _, j := range p.Jobs("") {
		if j.State == "running" && counts(j.Namespace) {
			s.Jobs++
		}
	}
	s.Pools = p.pools()
	return s
}

// Usage returns what a living session of a namespace uses now. It waits for no cell.
func (p *Pipeline) Usage(namespace, id string) (session.Usage, error) {
	s, err := p.own(namespace, id)
	if err != nil {
		return session.Usage{}, err
	}
	return usageOf(s.Sandbox().Usage()), nil
}

func usageOf(u backends.Usage) session.Usage {
	return session.Usage{MemoryBytes: u.Memory, DiskBytes: u.Disk, CPUSeconds: u.CPU.Seconds(), Processes: u.Processes}
}
