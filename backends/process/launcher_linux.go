package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/seccomp"
)

// Spawn has a launcher fork the PID 1 of a sandbox, see SpawnByLauncher.
func (b *Backend) Spawn(ctx context.Context, s *Sandbox) (*Init, error) {
	if s.HasNamespaces() {
		return b.SpawnByLauncher(ctx, b.Namespaces())
	}
	return b.SpawnByLauncher(ctx, 0)
}

// newInit returns the handle of a PID 1 to be spawned, with a host user of its own if root starts it.
func (b *Backend) newInit() (child *Init, err error) {
	child = &Init{killTimeout: b.config.KillTimeout}
	if b.root {
		child.users = &b.uids
		child.uid, err = b.uids.Assign()
	}
	return child, err
}

// SpawnByLauncher has a launcher fork a PID 1, and prepares it unless it is a subreaper. The cgroup and the plan
// are made while a launcher starts, if necessary.
func (b *Backend) SpawnByLauncher(ctx context.Context, flags uint64) (*Init, error) {
	if cgroup.IsUnified() {
		// Before a launcher starts: finding a cgroup may move this process into another one, and a launcher that
		// stays behind could not fork into its children.
		b.cgroups.FindBase()
	}
	var beside sync.WaitGroup
	beside.Go(func() { b.EnsureLauncher(ctx) })
	child, err := b.newInit()
	child.subreaper = flags&unix.CLONE_NEWPID == 0
	mounts := b.mounts.count()
	child.outdated = func() bool { return b.mounts.count() != mounts }
	if err == nil {
		child.cgroup, err = b.cgroups.Create()
	}
	var p *plan
	if err == nil && !child.subreaper {
		child.visible.texts = b.lastVisible.expected(child.cgroup)
		p = b.prepare(child)
		_, err = b.filters.ForKind(seccomp.Kind{Namespaces: true, Affinity: child.cgroup != nil})
	}
	beside.Wait()
	if err == nil {
		err = b.fork(ctx, child, flags)
	}
	if err == nil && p != nil {
		if err = child.setUp(ctx, p); err != nil {
			err = &namespaceError{err}
		}
	}
	if err != nil {
		child.Remove()
		return nil, err
	}
	return child, nil
}

// EnsureLauncher starts a launcher if there is none. A later start reports its failure.
func (b *Backend) EnsureLauncher(ctx context.Context) {
	if one, err := b.launchers.Acquire(ctx, "", b.startLauncher); err == nil {
		one.Spawned()
		one.Release()
	}
}

// startLauncher executes this program again, which package launch takes over at once: the launcher is a template
// with the server's root directory. A session of its own protects it from the terminal's Ctrl-C.
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
	if b.config.Inside { // programs of the same user see it there
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

// fork has a launcher fork child's process with flags (CLONE_*). If the launcher has died while it was idle, the
// request has had no effect, and another launcher is tried.
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
			return fmt.Errorf("%w: launcher: %w", cmp.Or(stopReason(ctx), error(&lateError{b.config.StartTimeout})), err)
		case err == nil || ctx.Err() != nil:
			return err
		}
		b.launchers.Drop(one, nil)
	}
	return fmt.Errorf("launcher: %w", err)
}
