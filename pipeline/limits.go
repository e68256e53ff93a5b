package pipeline

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// namespaceLimits holds limits of namespaces that were changed while the server runs.
type namespaceLimits struct {
	mu   sync.Mutex
	each map[string]Bounds
}

func (s *namespaceLimits) bounds(namespace string) Bounds {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.each[namespace]
}

// Set changes the limits of a namespace; zero fields are unchanged.
func (s *namespaceLimits) Set(namespace string, b Bounds) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each[namespace] = b.Or(s.each[namespace])
}

// LimitsInForce returns the default limits of a run in this namespace, and the caps.
func (p *Pipeline) LimitsInForce(namespace string) (limits, caps Bounds) {
	b := p.NamespaceLimits.bounds(NamespaceOrDefault(namespace)).Or(p.Config.Limits)
	return b.AtMost(p.Config.Caps), p.Config.Caps
}

// LimitsOf converts limits to the units that people use.
func LimitsOf(b Bounds) Limits {
	return Limits{RAM: b.RAM >> 20, CPU: b.CPU, Wall: b.Wall.Seconds(), Processes: b.Processes, Output: b.Output, Disk: b.Disk >> 20}
}

// BoundsOf converts limits from the units that people use. It is the reverse of LimitsOf.
func BoundsOf(l Limits) Bounds {
	return Bounds{Limits: backends.Limits{RAM: l.RAM << 20, CPU: l.CPU, Wall: time.Duration(l.Wall * float64(time.Second)),
		Processes: l.Processes, Disk: l.Disk << 20}, Output: l.Output}
}

// Bounds are limits of a run, or an operator's caps. A zero field is the default.
type Bounds struct {
	backends.Limits
	Output int64 // bytes of stdout, and as many of stderr
}

// DefaultBounds are the limits of a run if neither operator nor caller sets others.
var DefaultBounds = Bounds{Limits: backends.DefaultLimits, Output: 1 << 20}

// DefaultCaps bound a caller's limits if the operator sets no caps.
var DefaultCaps = Bounds{
	Limits: backends.Limits{
		RAM:       8 << 30,
		Wall:      time.Hour,
		CPU:       float64(runtime.GOMAXPROCS(0)),
		Processes: 4096,
		Disk:      8 << 30, // a tmpfs, so this is RAM too
	},
	Output: 64 << 20, // our memory holds the whole output of a run
}

// Or returns b with its zero fields taken from d.
func (b Bounds) Or(d Bounds) Bounds {
	if b.Output > 0 {
		d.Output = b.Output
	}
	return Bounds{b.Limits.WithFallback(d.Limits), d.Output}
}

// AtMost returns b with each field at most that of caps.
func (b Bounds) AtMost(caps Bounds) Bounds {
	return Bounds{b.Limits.CappedBy(caps.Limits), min(b.Output, caps.Output)}
}

// A Bound is one field of Bounds, with the name and unit that people use.
type Bound struct {
	Name string // as in --name and in "limits.name" and "caps.name" of the configuration
	flag remedy.Name
	Unit string
	Get  func(Bounds) float64
}

// AllBounds lists all fields of Bounds.
var AllBounds = []Bound{
	{"ram_mb", remedy.RAM, "MB", func(b Bounds) float64 { return float64(b.RAM) / (1 << 20) }},
	{"timeout_seconds", remedy.Timeout, "seconds", func(b Bounds) float64 { return b.Wall.Seconds() }},
	{"cpu_cores", remedy.CPU, "cores", func(b Bounds) float64 { return b.CPU }},
	{"processes", remedy.Processes, "processes", func(b Bounds) float64 { return float64(b.Processes) }},
	{"disk_mb", remedy.Disk, "MB", func(b Bounds) float64 { return float64(b.Disk) / (1 << 20) }},
	{"output_bytes", remedy.Output, "bytes", func(b Bounds) float64 { return float64(b.Output) }},
}

// ResolveLimits returns the limits of a run: its own, or the operator's defaults, which never exceed the caps. A
// limit above a cap is refused, not reduced: a program that gets less than its caller expects fails later, and less
// clearly.
func (p *Pipeline) ResolveLimits(namespace string, asked Bounds) (Bounds, error) {
	limits := asked.Or(p.NamespaceLimits.bounds(namespace)).Or(p.Config.Limits)
	for _, b := range AllBounds {
		want, limit := b.Get(asked), b.Get(p.Config.Caps)
		switch {
		case want < 0 || want != want:
			return Bounds{}, Refuse(StageValidate, fmt.Sprintf("%s %s is not a limit", FormatNumber(want), b.Unit), "leave it out for the default")
		case want > limit:
			most := FormatNumber(limit)
			return Bounds{}, Refuse(StageValidate, fmt.Sprintf("%s %s exceed the operator's cap of %s", FormatNumber(want), b.Unit, most),
				"ask for at most ", b.flag, " ", most, ", or ", remedy.Raise.With("caps."+b.Name))
		}
	}
	return limits.AtMost(p.Config.Caps), nil
}

// FormatNumber formats f without an exponent.
func FormatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Limits bound a session, in the units that people use. The about tags are descriptions in the schemas of tools.
type Limits struct {
	RAM       int64   `json:"max_ram_mb" about:"MB of memory for all processes together."`
	CPU       float64 `json:"max_cpu_cores" about:"Cores."`
	Wall      float64 `json:"timeout_seconds" about:"Seconds of one run or cell."`
	Processes int     `json:"max_processes" about:"Processes and threads."`
	Output    int64   `json:"max_output_bytes" about:"Bytes stored of stdout, and of stderr."`
	Disk      int64   `json:"max_disk_mb" about:"MB of /workspace, /tmp and /dev/shm together."`
}

// CurrentUsage is the current resource use of a session.
type CurrentUsage struct {
	MemoryBytes int64   `json:"memory_bytes" about:"Bytes of memory."`
	DiskBytes   int64   `json:"disk_bytes" about:"Bytes in /workspace, /tmp and /dev/shm."`
	CPUSeconds  float64 `json:"cpu_seconds" about:"Seconds of CPU time since its start."`
	Processes   int     `json:"processes" about:"Processes."`
}
