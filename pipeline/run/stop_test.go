package run_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// A signal that comes while the program is being started is the program's: it may have run for a moment, and set a
// trap, before its backend has said so. The second one ends the start.
func TestSignalWhileStarting(t *testing.T) {
	stop, killed := &pipeline.Stopper{Grace: time.Hour}, 0
	if stop.Signal(syscall.SIGTERM) {
		t.Error("a signal was taken for no program")
	}
	var streams backends.Streams
	stop.AttachProgram(&streams, func() { killed++ })
	if !stop.Signal(syscall.SIGTERM) || len(streams.Terminate) != 1 || len(streams.Interrupt) != 0 || killed != 0 {
		t.Errorf("the first signal does not wait for the program: killed %d times", killed)
	}
	if !stop.Signal(syscall.SIGINT) || killed != 1 {
		t.Errorf("the second signal did not end the start: killed %d times", killed)
	}
	if sent := stop.DetachProgram(); sent != syscall.SIGTERM {
		t.Errorf("the result says %v", sent)
	}
	if stop.Signal(syscall.SIGTERM) {
		t.Error("a signal was taken for a program that has ended")
	}
}
