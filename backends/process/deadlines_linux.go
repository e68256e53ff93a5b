package process

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Deadlines for the kernel, at the start and the end of a sandbox. Package process limits a program's time in await
// (run_linux.go), package kernel that of a cell.
//
// A start takes milliseconds, seconds on an emulated machine; an end takes less. Yet a kernel can stop answering:
// on a 6.18 kernel whose system work queue was busy freeing BPF programs, seccomp(2) never returned, in a process
// that no signal ended.
const (
	startTimeout = 30 * time.Second // default of Config.StartTimeout
	killTimeout  = 10 * time.Second // default of Config.KillTimeout
)

// lateError is the cause of a context that WithDeadline returns.
type lateError struct{ after time.Duration }

func (e *lateError) Error() string {
	return fmt.Sprintf("the kernel did not answer within %v", e.after)
}

// Is makes the error match context.DeadlineExceeded, as the context's own error does.
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// stopReason returns the reason why a start ended with ctx; [errors.Is] finds ctx.Err() in it.
func stopReason(ctx context.Context) error {
	if late, is := errors.AsType[*lateError](context.Cause(ctx)); is {
		return late
	}
	return ctx.Err()
}
