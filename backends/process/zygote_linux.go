package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/zygote"
)

// The forks of a zygote share its hash seed, its canaries and the layout of its memory. These limits bound that.
const (
	maxForks     = 1000
	maxZygoteAge = 10 * time.Minute
	// answerTimeout bounds a fork by a zygote, which takes it a millisecond, and spawnTimeout the setup of the forked PID
	// 1: a run that waits longer would have begun sooner without a zygote.
	answerTimeout, spawnTimeout = time.Second, 5 * time.Second
	// maxZygotes bounds the zygotes: callers choose the names of scripts.
	maxZygotes = 4
)

// scriptKind is the key of the zygotes for a script of a runtime.
func scriptKind(r runtimes.Runtime, script string) string { return script + " " + rootKey(r) }

// spawnByZygote has the zygote for a script of a runtime fork a PID 1.
func (a *preSpawned) spawnByZygote(ctx context.Context, r runtimes.Runtime, script string) (*initHandle, error) {
	one, err := a.zygotes.Acquire(ctx, scriptKind(r, script), func(ctx context.Context) (*template, error) { return a.startZygote(ctx, r, script) })
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, spawnTimeout)
	defer cancel()
	child, err := a.backend.spawnByTemplate(soon, one)
	if err != nil && ctx.Err() == nil {
		a.zygotes.Drop(one, err)
	}
	return child, err
}

// startZygote has a launcher fork a PID 1, which sets up the root and becomes a Python: a template whose interpreter has
// started, up to the point where it would run its script, and whose children are forks of it, see package zygote. It is
// never the host's root: it has rights in a user namespace of its own, whose only user is the unprivileged one of the
// sandboxes, and over the mounts in it.
func (a *preSpawned) startZygote(ctx context.Context, r runtimes.Runtime, script string) (*template, error) {
	b := a.backend
	code, err := a.bytecode(ctx, r.Path, "zygote", zygote.Source())
	if err != nil {
		return nil, err
	}
	child, err := b.newInitHandle()
	if err != nil {
		return nil, err
	}
	one := &template{cloning: make(chan struct{}, 1), initHandle: child, checked: time.Now()}
	s := &sandbox{backend: b, runtime: r, limits: backends.DefaultLimits, initHandle: child}
	pipes, err := s.newPipes() // as programs have
	if err != nil {
		child.release()
		return nil, err
	}
	defer pipes.close()
	pipes.ours[0].Close()
	args := []string{"python", script}
	program := s.resolve(args, nil)[0]
	stand, p := b.zygotePlans(one, r, code, pipes.theirs)
	p.do("execve "+program, unix.SYS_EXECVE, p.str(program), p.strs(args), p.strs(s.environ([]string{"PYTHONPATH=" + zygoteDir})))
	ctx, cancel := context.WithTimeout(ctx, idleStartTimeout)
	defer cancel()
	if err = b.fork(ctx, one.initHandle, b.flags()&templateFlags); err == nil {
		err = one.follow(ctx, stand, launch.ForInit)
	}
	if err == nil && b.root {
		err = b.uids.mapAll(one.pid)
	}
	if err == nil {
		err = one.follow(ctx, p, launch.ForInit)
	}
	pipes.started()
	if err != nil {
		one.Remove()
		return nil, fmt.Errorf("start a Python to fork: %w%s", err, lastOutput(pipes.ours[2]))
	}
	one.rooted, one.foreign = true, true
	return one, nil
}

// lastOutput returns the output of a dead zygote, for an error.
func lastOutput(output *os.File) string {
	output.SetReadDeadline(time.Now().Add(time.Second))
	text, _ := io.ReadAll(io.LimitReader(output, 500))
	if len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}

// zygoteDir is the directory of the zygote's program in its own root. Each sandbox mounts a directory of its own over it.
const zygoteDir = "/tmp"

// zygotePlans returns two plans: the setup of a template, after which root has to map users, and the rest, up to execve of
// Python.
func (b *Backend) zygotePlans(one *template, r runtimes.Runtime, code []byte, streams [3]*os.File) (first, p *plan) {
	first = newPlan(112)
	root := b.setUpTemplateRoot(first, one, r)
	first.write(newRoot+zygoteDir+"/"+zygote.File, string(code), unix.O_CREAT, 0o644)
	enter(first)
	one.states = root.states
	if b.root {
		becomeUser(first, one.uid)
		first.do("unshare(user, mount)", unix.SYS_UNSHARE, val(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	}
	first.ready()
	p = newPlan(112)
	// Nobody is root in the namespace in which Python is executed: to the kernel, a child of it that is not dumpable is that
	// root's, whose program could list /proc/1/fd, or else the host's.
	keepCapabilities(p)
	if b.root {
		p.prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	}
	for i, f := range streams {
		p.do("dup3", unix.SYS_DUP3, p.file(f), val(i), val(0))
	}
	p.set(slot(launch.SlotControl), "dup control", unix.SYS_FCNTL, slot(launch.SlotControl), val(unix.F_DUPFD_CLOEXEC), val(minHighFD))
	p.do("dup3 control", unix.SYS_DUP3, slot(launch.SlotControl), val(launch.Sock), val(0))
	p.do("close_range", unix.SYS_CLOSE_RANGE, val(launch.Sock+1), val(^uint32(0)), val(unix.CLOSE_RANGE_CLOEXEC))
	p.do("sigprocmask", unix.SYS_RT_SIGPROCMASK, val(unix.SIG_SETMASK), value(p, uint64(0)), val(0), val(8))
	// Python makes the script's name absolute when it starts.
	p.do("chdir "+workspace, unix.SYS_CHDIR, p.str(workspace))
	return first, p
}

// keepCapabilities preserves the capabilities in the user namespace across execve, although the process is not root there.
func keepCapabilities(p *plan) {
	const version3, all = 0x20080522, ^uint32(0)
	p.do("capset", unix.SYS_CAPSET, value(p, [2]uint32{version3}), value(p, [6]uint32{all, all, all, all, all, all}))
	for c := range 64 {
		p.try("prctl(PR_CAP_AMBIENT_RAISE)", unix.SYS_PRCTL, val(unix.PR_CAP_AMBIENT), val(unix.PR_CAP_AMBIENT_RAISE), val(c), val(0), val(0))
	}
}

// zygote returns the zygote that spawned a sandbox's PID 1, if any, until that is gone.
func (s *sandbox) zygote() *template {
	if s.initHandle == nil || !s.foreign {
		return nil
	}
	s.initHandle.mu.Lock() // a sandbox whose interpreter dies while it is idle is removed by its watcher
	defer s.initHandle.mu.Unlock()
	return s.template
}
