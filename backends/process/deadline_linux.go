package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// A start takes milliseconds, and seconds on an emulated machine; an end less. A kernel can stop answering all the same:
// a 6.18 whose system work queue was busy freeing BPF programs let seccomp(2) wait for good, in a process that no signal ended.
const (
	startTimeout = 30 * time.Second // unless Config.StartTimeout says otherwise
	killTimeout  = 10 * time.Second // and Config.KillTimeout
)

func (c Config) startTimeout() time.Duration { return cmp.Or(c.StartTimeout, startTimeout) }
func (c Config) killTimeout() time.Duration  { return cmp.Or(c.KillTimeout, killTimeout) }

// starting bounds a start.
func (b *Backend) starting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, b.config.startTimeout(), &lateError{b.config.startTimeout()})
}

// lateError is the cause of a context that starting bounds.
type lateError struct{ after time.Duration }

func (e *lateError) Error() string {
	return fmt.Sprintf("the kernel did not answer within %v", e.after)
}
func (e *lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// stopped is why a start that ctx bounds has to end: [errors.Is] finds ctx.Err() in it.
func stopped(ctx context.Context) error {
	if late, is := errors.AsType[*lateError](context.Cause(ctx)); is {
		return late
	}
	return ctx.Err()
}

// inTime is startNew with a deadline.
func (b *Backend) inTime(ctx context.Context, spec backends.Spec, spawn spawner) (*sandbox, error) {
	return b.bounded(ctx, func(ctx context.Context) (*sandbox, error) { return b.startNew(ctx, spec, spawn) })
}

// bounded gives a start a deadline, also where this process itself waits for the kernel: what is started
// too late is closed by whoever started it.
func (b *Backend) bounded(ctx context.Context, start func(context.Context) (*sandbox, error)) (*sandbox, error) {
	ctx, cancel := b.starting(ctx)
	type result struct {
		s   *sandbox
		err error
	}
	made, gone := make(chan result), make(chan struct{})
	go func() {
		defer cancel()
		s, err := start(ctx)
		select {
		case made <- result{s, err}:
		case <-gone:
			if s != nil {
				s.Close()
			}
		}
	}()
	select {
	case r := <-made:
		return r.s, r.err
	case <-ctx.Done():
	}
	// It knows better where it was stopped, if it still can say so.
	select {
	case r := <-made:
		return r.s, r.err
	case <-time.After(2 * b.config.killTimeout()):
		close(gone)
		return nil, fmt.Errorf("start a sandbox: %w, and still does not", stopped(ctx))
	}
}

// whereabouts says which step of a plan a process is in, by proc_pid_syscall(5), for the error of a plan that was not
// followed in time.
func (p *plan) whereabouts(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall")
	number, _, _ := strings.Cut(string(text), " ")
	nr, failed := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
	if err != nil || failed != nil {
		return "a step that can't be seen"
	}
	for i, s := range p.steps {
		if uint64(s.NR) == nr {
			return p.names[i]
		}
	}
	return "system call " + number
}

// overWithin waits for the end of a pidfd's process, and says whether it came.
func overWithin(pidfd *os.File, timeout time.Duration) bool {
	poll := []unix.PollFd{{Fd: int32(pidfd.Fd()), Events: unix.POLLIN}}
	for end := time.Now().Add(timeout); ; {
		left := time.Until(end)
		n, err := unix.Poll(poll, max(0, int(left.Milliseconds())))
		if err != unix.EINTR || left <= 0 {
			return err == nil && n > 0
		}
	}
}
