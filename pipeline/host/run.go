package host

import (
	"io"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

// Run is an allowed command.
type Run struct {
	Program   Program
	Words     Words
	Directory string
	Env       []string
	Stdin     io.Reader // nil is empty
	Stdout    io.Writer
	Stderr    io.Writer
	Bounds    launch.Bounds // of it and all that it starts
	Cage      *Cage         // where it is put; nil is none
}

// End describes how a command ended.
type End struct {
	Exit       int    // the exit code, or 128 and the signal
	Signal     string // "SIGSEGV", if one ended it
	Killed     int    // processes that it had left, and that were killed
	CPU        time.Duration
	Memory     int64  // bytes: the most that all held, or without a cgroup the largest of its processes
	Limit      string // "ram" or "processes", if it was killed for that
	Forks      int64  // how many it was refused
	EnforcedBy string // what enforced the bounds, as the row names it
}
