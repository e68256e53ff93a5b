package process

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// These are deadlines for the kernel, at the start and the end of a sandbox. The limit of a program's time is kept by
// await (run_linux.go), that of a cell by the kernel package.
//
// A start takes milliseconds, and seconds on an emulated machine; an end less. A kernel can stop answering all the
// same: a 6.18 whose system work queue was busy freeing BPF programs let seccomp(2) wait for good, in a process that no
// signal ended.
const (
	startTimeout = 30 * time.Second // unless Config.StartTimeout says otherwise
	killTimeout  = 10 * time.Second // and Config.KillTimeout
)

// lateError is the cause of a context that WithDeadline returns.
type lateError struct{ after time.Duration }

func (e *lateError) Error() string {
	return fmt.Sprintf("the kernel did not answer within %v", e.after)
}

// Is makes the error match context.DeadlineExceeded, as the context's own error does.
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// stopped returns the reason why a start ended with ctx: [errors.Is] finds ctx.Err() in it.
func stopped(ctx context.Context) error {
	if late, is := errors.AsType[*lateError](context.Cause(ctx)); is {
		return late
	}
	return ctx.Err()
}
