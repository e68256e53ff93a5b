package bench

import (
	"strings"
	"time"
)

// Report is what was measured. As JSON it is an object with these members, in which 0 and "" of those that may be
// absent are left out. Ratios are of the figures as they stand here, to three decimals.
type Report struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"` // that it took
	Quick   bool      `json:"quick"`
	Machine Machine   `json:"machine"`
	Rows    []Row     `json:"rows"`     // what we aim at, and how far it is
	Latency []Latency `json:"latency"`  // one run at a time; in the order of measuring, not of speed
	Load    []Load    `json:"load"`     // all cores busy
	LeftOut []LeftOut `json:"left_out"` // what could have been measured elsewhere
}

// Machine describes the machine that was measured.
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
	Language string `json:"language"` // or [Start]
	Variant  string `json:"variant"`  // "bare", "bubblewrap", "execute_code", ...
	What     string `json:"what"`     // that was run
	Spread
	Ready *Ready  `json:"ready,omitempty"`
	Added float64 `json:"added_ms,omitempty"`        // p50 less the p50 of bare
	Ratio float64 `json:"ratio,omitempty"`           // p50 by the p50 of bare
	Alone float64 `json:"ratio_to_engine,omitempty"` // p50 by the p50 of the engine's own run, of ours in its containers
	Error string  `json:"error,omitempty"`           // with which it broke; what was measured before stands
}

// Load is how many runs end within a second when as many run at once as there are cores.
type Load struct {
	Language    string  `json:"language"`
	Variant     string  `json:"variant"`
	Concurrency int     `json:"concurrency"`
	Seconds     float64 `json:"seconds"` // in which the runs ended
	Spread
	Ready     *Ready  `json:"ready,omitempty"`
	PerSecond float64 `json:"per_second"`
	Tail      float64 `json:"p99_by_p50,omitempty"`
	Ratio     float64 `json:"ratio,omitempty"` // per second by those of bare
	Error     string  `json:"error,omitempty"`
}

// Ready is how many of the runs found a sandbox ready, and why the others did not.
type Ready struct {
	Runs  int            `json:"runs"`
	Found int            `json:"found"`
	Cold  map[string]int `json:"cold,omitempty"` // how often for which reason
}

// LeftOut is something that was not measured.
type LeftOut struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// compare works out what is said about two figures.
func (r *Report) compare(u used) {
	for i := range r.Latency {
		l := &r.Latency[i]
		if bare := r.p50(l.Language, Bare); l.Runs > 0 && bare > 0 {
			l.Ratio, l.Added = ratio(l.P50, bare), round(l.P50-bare)
		}
		if engine, ok := strings.CutPrefix(l.Variant, within("")); ok {
			l.Alone = ratio(l.P50, r.p50(l.Language, engine+" run"))
		}
	}
	for i := range r.Load {
		l := &r.Load[i]
		l.Ratio, l.Tail = ratio(l.PerSecond, r.load(l.Language, Bare).PerSecond), ratio(l.P99, l.P50)
	}
	r.rows(u)
}

// p50 is a way's median of one run at a time; 0 is unknown.
func (r *Report) p50(language, variant string) float64 {
	for _, l := range r.Latency {
		if l.Language == language && l.Variant == variant {
			return l.P50
		}
	}
	return 0
}

func (r *Report) load(language, variant string) Load {
	for _, l := range r.Load {
		if l.Language == language && l.Variant == variant {
			return l
		}
	}
	return Load{}
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
