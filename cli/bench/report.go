package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Report is what was measured. As JSON it is an object with these members, in which 0 and "" of those that may be
// absent are left out. Ratios are of the figures as they stand here, to three decimals.
type Report struct {
	Began   time.Time         `json:"began"`
	Seconds float64           `json:"seconds"` // that it took
	Quick   bool              `json:"quick"`
	Machine Machine           `json:"machine"`
	Latency []Figures         `json:"latency"`  // one run at a time; in the order of measuring, not of speed
	Load    []Figures         `json:"load"`     // as many at a time as there are cores
	LeftOut map[string]string `json:"left_out"` // what could have been measured elsewhere, with the reason
}

// Machine describes the machine that was measured.
type Machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	System   string            `json:"system"`   // and its kernel's version
	Versions map[string]string `json:"versions"` // of sandboxmcp, interpreters and tools, by name
}

// Figures are how long one way of running the small program of a language takes.
type Figures struct {
	Language string `json:"language"`
	Variant  string `json:"variant"` // "bare", "bubblewrap", "execute_code", ...
	What     string `json:"what"`    // that was run
	Spread
	Concurrency int     `json:"concurrency,omitempty"`
	PerSecond   float64 `json:"per_second,omitempty"`      // runs that ended, of a load
	Ratio       float64 `json:"ratio,omitempty"`           // p50, of a load per_second, by that of bare
	Alone       float64 `json:"ratio_to_engine,omitempty"` // p50 by the p50 of the engine's own run, of ours in its containers
	Error       string  `json:"error,omitempty"`           // with which it broke; what was measured before stands
}

// Spread is how long runs took, in milliseconds to a microsecond. Each figure is one run's that was really
// measured: pN is the shortest time that N of 100 runs did not exceed.
type Spread struct {
	Runs int     `json:"runs"`
	Min  float64 `json:"min_ms"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
}

func spread(taken []time.Duration) Spread {
	if len(taken) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(taken))
	at := func(percent int) float64 {
		rank := (len(sorted)*percent + 99) / 100 // rounded up: the nearest rank
		return round(sorted[max(rank, 1)-1].Seconds() * 1e3)
	}
	return Spread{Runs: len(sorted), Min: at(0), P50: at(50), P90: at(90), P99: at(99)}
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

// compare works out the ratios.
func (r *Report) compare() {
	for i := range r.Latency {
		f := &r.Latency[i]
		f.Ratio = ratio(f.P50, find(r.Latency, f.Language, Bare).P50)
		if engine, ok := strings.CutPrefix(f.Variant, FromBash+", "); ok {
			f.Alone = ratio(f.P50, find(r.Latency, f.Language, engine+" run").P50)
		}
	}
	for i := range r.Load {
		f := &r.Load[i]
		f.Ratio = ratio(f.PerSecond, find(r.Load, f.Language, Bare).PerSecond)
	}
}

func find(all []Figures, language, variant string) (f Figures) {
	if i := slices.IndexFunc(all, func(f Figures) bool { return f.Language == language && f.Variant == variant }); i >= 0 {
		f = all[i]
	}
	return f
}

// describeMachine returns a description of the machine that is measured.
func describeMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), CPU: "unknown", System: runtime.GOOS + "/" + runtime.GOARCH, Versions: map[string]string{}}
	text, _ := os.ReadFile("/proc/cpuinfo")
	if _, model, ok := strings.Cut(string(text), "model name"); ok {
		model, _, _ = strings.Cut(model, "\n")
		m.CPU = strings.Trim(model, ": \t")
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += " " + strings.TrimSpace(string(release))
	}
	if os.Geteuid() == 0 {
		m.System += ", as root"
	}
	return m
}

// Table writes the report for people. The words of tools in it are as they came: whoever shows it on a terminal takes
// care of escapes.
func (r Report) Table(w io.Writer) error {
	var b strings.Builder
	m := r.Machine
	fmt.Fprintf(&b, "%s, %d cores, %s, %s\n", m.CPU, m.Cores, m.System, r.Began.Local().Format("2006-01-02 15:04"))
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		fmt.Fprintf(&b, "%s %s\n", name, m.Versions[name])
	}
	for _, language := range Languages() {
		writeFigures(&b, language+", one at a time, in ms", language, r.Latency)
		writeFigures(&b, fmt.Sprintf("%s, %d at a time", language, m.Cores), language, r.Load)
	}
	if len(r.LeftOut) > 0 {
		b.WriteString("\nleft out\n")
	}
	for _, what := range slices.Sorted(maps.Keys(r.LeftOut)) {
		fmt.Fprintf(&b, "  %s: %s\n", what, r.LeftOut[what])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFigures writes a language's rows of a table, if it has any.
func writeFigures(b *strings.Builder, title, language string, all []Figures) {
	title = fmt.Sprintf("\n%-32s%6s%9s%9s%9s%9s%9s\n", title, "runs", "min", "p50", "p90", "p99", "x bare")
	for _, f := range all {
		if f.Language != language {
			continue
		}
		fmt.Fprintf(b, "%s  %-30s%6d%9.2f%9.2f%9.2f%9.2f%9.2f\n", title, f.Variant, f.Runs, f.Min, f.P50, f.P90, f.P99, f.Ratio)
		title = ""
		if f.Concurrency > 0 {
			fmt.Fprintf(b, "    %.0f a second\n", f.PerSecond)
		}
		if f.Alone > 0 {
			fmt.Fprintf(b, "    %.2f x the engine's own run\n", f.Alone)
		}
		if f.Error != "" {
			fmt.Fprintf(b, "    it broke: %s\n", f.Error)
		}
	}
}
