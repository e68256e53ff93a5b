package host

import (
	"io"
	"time"
)

// Run is one command that was decided to run.
type Run struct {
	Program   Program
	Words     Words
	Directory string
	Env       []string
	Stdin     io.Reader // nil is empty
	Stdout    io.Writer
	Stderr    io.Writer
}

// End is how a command ended.
type End struct {
	Exit   int    // the exit code, or 128 and the signal
	Signal string // "SIGSEGV", if one ended it
	Killed int    // processes that it had left, and that were killed
	CPU    time.Duration
	Memory int64 // bytes, of the largest of its processes
}
