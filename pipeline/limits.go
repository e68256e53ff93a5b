package pipeline

import (
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Bounds are limits of a run, or what an operator allows at most. A zero field is the default.
type Bounds struct {
	backends.Limits
	Output int64 // bytes of stdout, and as many of stderr
}

// DefaultBounds are the limits of a run for which neither operator nor caller names others.
var DefaultBounds = Bounds{Limits: backends.DefaultLimits, Output: 1 << 20}

// DefaultCaps bound what a caller can ask for, where the operator does not.
var DefaultCaps = Bounds{
	Limits: backends.Limits{
		RAM:       8 << 30,
		Wall:      time.Hour,
		CPU:       float64(runtime.GOMAXPROCS(0)),
		Processes: 4096,
		Disk:      8 << 30, // a tmpfs: this is RAM, too
	},
	Output: 64 << 20, // a run's output is in our memory as a whole
}

func (b Bounds) or(d Bounds) Bounds {
	if b.Output > 0 {
		d.Output = b.Output
	}
	return Bounds{b.Limits.Or(d.Limits), d.Output}
}

func (b Bounds) atMost(caps Bounds) Bounds {
	return Bounds{b.Limits.AtMost(caps.Limits), min(b.Output, caps.Output)}
}

// A bound is one field of Bounds, in the unit and under the name that people set it with.
type bound struct {
	name string // as in --name and in "limits.name" and "caps.name" of the configuration
	flag remedy.Name
	unit string
	get  func(Bounds) float64
}

var bounds = []bound{
	{"ram_mb", remedy.RAM, "MB", func(b Bounds) float64 { return float64(b.RAM) / (1 << 20) }},
	{"timeout_seconds", remedy.Timeout, "seconds", func(b Bounds) float64 { return b.Wall.Seconds() }},
	{"cpu_cores", remedy.CPU, "cores", func(b Bounds) float64 { return b.CPU }},
	{"processes", remedy.Processes, "processes", func(b Bounds) float64 { return float64(b.Processes) }},
	{"disk_mb", remedy.Disk, "MB", func(b Bounds) float64 { return float64(b.Disk) / (1 << 20) }},
	{"output_bytes", remedy.Output, "bytes", func(b Bounds) float64 { return float64(b.Output) }},
}

// limit returns what a run may use: what it asks for, or the operator's default, which is never
// above the operator's cap. Asking for more than the cap is refused, not cut down: a program that
// gets less than its caller counted on fails later, and less clearly.
func (p *Pipeline) limit(namespace string, asked Bounds) (Bounds, error) {
	limits := asked.or(p.namespaceLimits.bounds(namespace)).or(p.cfg.Limits)
	for _, b := range bounds {
		want, limit := b.get(asked), b.get(p.cfg.Caps)
		switch {
		case want < 0 || want != want:
			return Bounds{}, refuse(StageValidate, fmt.Sprintf("%s %s is not a limit", formatNumber(want), b.unit), "leave it out for the default")
		case want > limit:
			most := formatNumber(limit)
			return Bounds{}, refuse(StageValidate, fmt.Sprintf("%s %s asked for, and the operator's cap is %s", formatNumber(want), b.unit, most),
				"ask for at most ", b.flag, " ", most, ", or ", remedy.Raise.With("caps."+b.name))
		}
	}
	return limits.atMost(p.cfg.Caps), nil
}

func formatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
