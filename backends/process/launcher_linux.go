package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/templates"
)

// newLaunchers returns a set of launchers without any yet: there will be one for each concurrent start, up to the number of
// CPUs.
func newLaunchers() *templates.Set[*Template] {
	return templates.New[*Template](templates.Limits{Each: runtime.NumCPU()})
}

// EnsureLauncher starts a launcher, if there is none. A failure shows where the launcher is needed.
func (b *Backend) EnsureLauncher(ctx context.Context) {
	if one, err := b.launchers.Acquire(ctx, "", b.startLauncher); err == nil {
		one.Spawned()
		one.Release()
	}
}

// startLauncher executes this program again, which package launch takes over at once: the launcher is a template with the
// server's root directory. A session of its own shields it from the terminal's Ctrl-C.
func (b *Backend) startLauncher(context.Context) (*Template, error) {
	conn, theirs, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	var pidfd int
	cmd := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{launch.Name},
		Env:         []string{"GOMAXPROCS=1", "GOTRACEBACK=none"},
		Dir:         "/",
		Stdin:       null,
		Stdout:      null,
		Stderr:      null,
		ExtraFiles:  []*os.File{theirs}, // becomes launch.Sock
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	}
	if b.config.Inside { // where programs of the same user see it
		cmd.Args = append(cmd.Args, launch.Closed)
	}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the launcher: %w", err)
	}
	return &Template{cloning: make(chan struct{}, 1), Init: &Init{
		pid: cmd.Process.Pid, pidfd: os.NewFile(uintptr(pidfd), "launcher"), reap: cmd.Wait, control: conn, killTimeout: b.config.KillTimeout,
	}}, nil
}

// fork has a launcher fork child's process with flags (CLONE_*). If the launcher has died while it was idle, nothing has
// begun, and another is tried.
func (b *Backend) fork(ctx context.Context, child *Init, flags uint64) (err error) {
	for range 2 {
		var one *Template
		if one, err = b.launchers.Acquire(ctx, "", b.startLauncher); err != nil {
			return err
		}
		err = one.fork(ctx, child, flags)
		switch {
		case isForkError(err):
			return &namespaceError{err}
		case errors.Is(err, os.ErrDeadlineExceeded): // which may be a moment before ctx's end
			b.launchers.Drop(one, nil) // the processes that it has forked live on
			return fmt.Errorf("%w: launcher: %w", cmp.Or(stopped(ctx), error(&lateError{b.config.StartTimeout})), err)
		case err == nil || ctx.Err() != nil:
			return err
		}
		b.launchers.Drop(one, nil)
	}
	return fmt.Errorf("launcher: %w", err)
}

// namespaceError is a failure to make or set up namespaces: the host does not permit them.
type namespaceError struct{ err error }

func (e *namespaceError) Error() string { return e.err.Error() }
func (e *namespaceError) Unwrap() error { return e.err }

// forkError is a fork that failed: the template is well, and the host denied the request.
type forkError struct{ err error }

func (e *forkError) Error() string { return e.err.Error() }
func (e *forkError) Unwrap() error { return e.err }

// isForkError reports whether the template that returned err can be used again.
func isForkError(err error) bool { return errors.As(err, new(*forkError)) }
