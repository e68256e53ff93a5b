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

// Report holds the results. Ratios are computed from the figures in it, and rounded to three decimals. As JSON, zero
// values of optional members are left out.
type Report struct {
	Began   time.Time         `json:"began"`
	Seconds float64           `json:"seconds"` // duration of the measurement
	Quick   bool              `json:"quick"`
	Machine Machine           `json:"machine"`
	Latency []Figures         `json:"latency"`  // one run at a time, in the order of the methods
	Load    []Figures         `json:"load"`     // as many runs at a time as there are cores
	LeftOut map[string]string `json:"left_out"` // reasons for methods that were not measured, by name
}

// Machine describes the measured machine.
type Machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	System   string            `json:"system"`   // with the version of the kernel
	Versions map[string]string `json:"versions"` // of sandboxmcp, interpreters and tools, by name
}

// Figures are the durations of one method to run the small program of a language.
type Figures struct {
	Language string `json:"language"`
	Variant  string `json:"variant"` // "bare", "bubblewrap", "execute_code", ...
	What     string `json:"what"`    // command line
	Spread
	Concurrency int     `json:"concurrency,omitempty"`
	PerSecond   float64 `json:"per_second,omitempty"`      // completed runs under load
	Ratio       float64 `json:"ratio,omitempty"`           // p50, or per_second under load, divided by that of bare
	Alone       float64 `json:"ratio_to_engine,omitempty"` // p50 of our containers divided by that of the engine's own run
	Error       string  `json:"error,omitempty"`           // why the method broke; the figures before it stay
}

// Spread describes durations in milliseconds, to a microsecond. Each figure is one measured run: pN is the shortest
// time that N of 100 runs did not exceed.
type Spread struct {
	Runs int     `json:"runs"`
	Min  float64 `json:"min_ms"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
}

func newSpread(taken []time.Duration) Spread {
	if len(taken) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(taken))
	at := func(percent int) float64 {
		rank := (len(sorted)*percent + 99) / 100 // rounded up: the nearest rank
		return roundToThousandths(sorted[max(rank, 1)-1].Seconds() * 1e3)
	}
	return Spread{Runs: len(sorted), Min: at(0), P50: at(50), P90: at(90), P99: at(99)}
}

// roundToThousandths rounds to three decimals.
func roundToThousandths(f float64) float64 { return math.Round(f*1000) / 1000 }

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return roundToThousandths(a / b)
}

// computeRatios computes the ratios.
func (r *Report) computeRatios() {
	for i := range r.Latency {
		f := &r.Latency[i]
		f.Ratio = ratio(f.P50, findFigures(r.Latency, f.Language, Bare).P50)
		if engine, ok := strings.CutPrefix(f.Variant, FromBash+", "); ok {
			f.Alone = ratio(f.P50, findFigures(r.Latency, f.Language, engine+" run").P50)
		}
	}
	for i := range r.Load {
		f := &r.Load[i]
		f.Ratio = ratio(f.PerSecond, findFigures(r.Load, f.Language, Bare).PerSecond)
	}
}

func findFigures(all []Figures, language, variant string) (f Figures) {
	if i := slices.IndexFunc(all, func(f Figures) bool { return f.Language == language && f.Variant == variant }); i >= 0 {
		f = all[i]
	}
	return f
}

// describeMachine describes the machine that is measured.
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

// Table writes the report for people. Texts of tools in it are not escaped: callers must escape them for a terminal.
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

// writeFigures writes the table rows of a language, if it has any.
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
