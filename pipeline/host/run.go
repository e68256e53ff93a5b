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
	Bounds    launch.Bounds // of it and its descendants
	Cage      *Cage         // provides its cgroup; nil is none
}

// End describes how a command ended.
type End struct {
	Exit       int    // the exit code, or 128 plus the signal
	Signal     string // such as "SIGSEGV", if one ended it
	Killed     int    // remaining processes, which were killed
	CPU        time.Duration
	Memory     int64  // peak bytes of all processes, or without a cgroup of the largest
	Limit      string // "ram" or "processes", if it was killed for it
	Forks      int64  // number of refused forks
	EnforcedBy string // mechanism that enforced the bounds, for the row
}
