package backends

import (
	"time"
)

// Limits bound one sandbox. A zero field means its value in DefaultLimits, never "no limit".
type Limits struct {
	RAM       int64         // bytes of all processes together, without the workspace's files
	Wall      time.Duration // per Exec
	CPU       float64       // cores
	Processes int           // in addition to those of the interpreter itself
	Disk      int64         // bytes, for /workspace, /tmp and /dev/shm together
}

// DefaultLimits apply to a sandbox without explicit limits.
var DefaultLimits = Limits{
	RAM:       512 << 20,
	Wall:      60 * time.Second,
	CPU:       1,
	Processes: 256, // thread pools of numpy, npm and pytest have one thread per core, and a program may have several
	Disk:      512 << 20,
}

// WithDefaults returns l with each zero field replaced by the default.
func (l Limits) WithDefaults() Limits { return l.WithFallback(DefaultLimits) }

// WithFallback returns l with each field that is not positive replaced by d's.
func (l Limits) WithFallback(d Limits) Limits {
	return Limits{positiveOr(l.RAM, d.RAM), positiveOr(l.Wall, d.Wall), positiveOr(l.CPU, d.CPU), positiveOr(l.Processes, d.Processes),
		positiveOr(l.Disk, d.Disk)}
}

func positiveOr[T int | int64 | float64 | time.Duration](n, d T) T {
	if n > 0 {
		return n
	}
	return d
}

// CappedBy returns the smaller value of each field of l and caps.
func (l Limits) CappedBy(caps Limits) Limits {
	return Limits{min(l.RAM, caps.RAM), min(l.Wall, caps.Wall), min(l.CPU, caps.CPU), min(l.Processes, caps.Processes), min(l.Disk, caps.Disk)}
}

// MaxTasks returns the maximum number of concurrent threads in a sandbox for a language: the limit of processes,
// PID 1, and the interpreter's own threads. Those are V8's and libuv's pools for node, and as many for a shell or a
// command, which starts other interpreters.
func MaxTasks(language string, processes int) int {
	own := map[string]int{"node": 20, "shell": 20, AnyProgram: 20, "python": 1, "r": 8}[language]
	return processes + own + 1
}
