package backends

import (
	"time"
)

// Limits bound one sandbox. A zero field means its value in DefaultLimits, never "no limit".
type Limits struct {
	RAM       int64         // bytes, of all processes together, without the workspace's files
	Wall      time.Duration // of one Exec
	CPU       float64       // cores
	Processes int           // in addition to those that the interpreter needs for its own start
	Disk      int64         // bytes, for /workspace, /tmp and /dev/shm together
}

// DefaultLimits apply to a sandbox without limits of its own.
var DefaultLimits = Limits{
	RAM:       512 << 20,
	Wall:      60 * time.Second,
	CPU:       1,
	Processes: 256, // pools of threads of numpy, npm and pytest have as many as there are cores, and a few of them
	Disk:      512 << 20,
}

// WithDefaults returns l with each zero field replaced by the default.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits
	if l.RAM > 0 {
		d.RAM = l.RAM
	}
	if l.Wall > 0 {
		d.Wall = l.Wall
	}
	if l.CPU > 0 {
		d.CPU = l.CPU
	}
	if l.Processes > 0 {
		d.Processes = l.Processes
	}
	if l.Disk > 0 {
		d.Disk = l.Disk
	}
	return d
}

// Tasks returns how many threads may exist at once in a sandbox for a language: the processes that its limit grants, PID 1,
// and the interpreter's own threads. Those are V8's and libuv's pools for node, and as many for a shell or a command, which
// starts other interpreters.
func Tasks(language string, processes int) int {
	own := map[string]int{"node": 20, "shell": 20, AnyProgram: 20, "python": 1, "r": 8}[language]
	return processes + own + 1
}
