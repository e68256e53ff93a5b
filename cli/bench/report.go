package bench

import (
	"slices"
	"time"
)

// Report is what was measured. As JSON it is an object with these members, in which 0 and "" of those that may be
// absent are left out. Ratios are of the figures as they stand here, to three decimals.
type Report struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"` // that it took
	Quick   bool      `json:"quick"`
	Machine Machine   `json:"machine"`
	Latency []Latency `json:"latency"`         // one run at a time; in the order of measuring, not of speed
	Load    []Load    `json:"load"`            // all cores busy
	Pools   []Pool    `json:"pools,omitempty"` // what the server kept ready
	Memory  []Memory  `json:"memory"`
	LeftOut []LeftOut `json:"left_out"` // what could have been measured elsewhere
}

// Machine is where it was measured.
type Machine struct {
	CPU          string            `json:"cpu"`
	Cores        int               `json:"cores"`
	System       string            `json:"system"`
	Kernel       string            `json:"kernel,omitempty"`
	Distribution string            `json:"distribution,omitempty"`
	User         string            `json:"user"`     // "root" or "an ordinary user"
	Versions     map[string]string `json:"versions"` // of sandboxmcp, interpreters and tools, by name
}

// Latency is how long one way of running the small program of a language takes.
type Latency struct {
	Language string `json:"language"`
	Way      string `json:"way"`  // "bare", "bubblewrap", "execute_code", ...
	What     string `json:"what"` // that was run
	Spread
	Added float64 `json:"added_ms,omitempty"`        // p50 less the p50 of bare
	Ratio float64 `json:"ratio,omitempty"`           // p50 by the p50 of bare
	Alone float64 `json:"ratio_to_engine,omitempty"` // p50 by the p50 of the engine's own run, of ours in its containers
	Error string  `json:"error,omitempty"`           // with which it broke; what was measured before stands
}

// Load is how many runs end within a second when as many run at once as there are cores.
type Load struct {
	Language    string  `json:"language"`
	Way         string  `json:"way"`
	Concurrency int     `json:"concurrency"`
	Seconds     float64 `json:"seconds"` // in which the runs ended
	Spread
	PerSecond float64 `json:"per_second"`
	Tail      float64 `json:"p99_by_p50,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"` // per second by those of bare
	Error     string  `json:"error,omitempty"`
}

// Pool is what the server kept ready for a language, and how many runs found one.
type Pool struct {
	Language   string  `json:"language"`
	Ready      int64   `json:"ready"`             // after the runs that were made one at a time
	SlotMB     float64 `json:"slot_mb,omitempty"` // that each of these held then, shared pages counted by share
	Hits       int64   `json:"hits"`              // one run at a time, those included that were not timed
	Misses     int64   `json:"misses"`
	LoadHits   int64   `json:"load_hits"`
	LoadMisses int64   `json:"load_misses"`

	bytes int64
}

// Memory is what something holds in RAM.
type Memory struct {
	What string  `json:"what"`
	MB   float64 `json:"mb"` // millions of bytes
}

// LeftOut is something that was not measured.
type LeftOut struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// compare works out what is said about two figures.
func (r *Report) compare() {
	bare := map[string]float64{}
	for _, l := range r.Latency {
		if l.Way == Bare {
			bare[l.Language] = l.P50
		}
	}
	for i := range r.Latency {
		l := &r.Latency[i]
		if l.Runs > 0 && bare[l.Language] > 0 {
			l.Ratio, l.Added = ratio(l.P50, bare[l.Language]), round(l.P50-bare[l.Language])
		}
	}
	for _, engine := range engineNames() {
		for i := range r.Latency {
			l := &r.Latency[i]
			of := slices.IndexFunc(r.Latency, func(o Latency) bool { return o.Language == l.Language && o.Way == engine+" run" })
			if of >= 0 && l.Way == within(engine) {
				l.Alone = ratio(l.P50, r.Latency[of].P50)
			}
		}
	}
	rate := map[string]float64{}
	for _, l := range r.Load {
		if l.Way == Bare {
			rate[l.Language] = l.PerSecond
		}
	}
	for i := range r.Load {
		l := &r.Load[i]
		l.Ratio, l.Tail = ratio(l.PerSecond, rate[l.Language]), ratio(l.P99, l.P50)
	}
}

// Of returns what was measured of a language, in the order of measuring.
func Of[T interface{ of() string }](all []T, language string) (its []T) {
	for _, one := range all {
		if one.of() == language {
			its = append(its, one)
		}
	}
	return its
}

func (l Latency) of() string { return l.Language }
func (l Load) of() string    { return l.Language }
