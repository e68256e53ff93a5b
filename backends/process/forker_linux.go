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
)

// Forker is a program that becomes a template: the template's children are its forks. It uses the messages of
// package launch.
type Forker struct {
	File      string // in ForkerDir, with
	Code      []byte // this content
	Args, Env []string
}

// StartForker has a launcher fork a PID 1, which sets up the root of a runtime and becomes a forker. It is never
// the host's root: its rights are limited to a user namespace of its own, whose only user is the sandboxes'
// unprivileged one, and to the mounts in it.
func (b *Backend) StartForker(ctx context.Context, r runtimes.Runtime, f Forker) (*Template, error) {
	child, err := b.newInit()
	if err != nil {
		return nil, err
	}
	one := &Template{cloning: make(chan struct{}, 1), Init: child, checked: time.Now()}
	s := &Sandbox{backend: b, view: view{runtime: r}, constraints: constraints{limits: backends.DefaultLimits}, Init: child}
	pipes, err := s.newPipes() // like those of programs
	if err != nil {
		child.release()
		return nil, err
	}
	defer pipes.close()
	pipes.ours[0].Close()
	program := s.resolve(f.Args, nil)[0]
	stand, p := b.forkerPlans(one, r, f, pipes.theirs)
	p.do("execve "+program, unix.SYS_EXECVE, p.str(program), p.strs(f.Args), p.strs(s.Environ(f.Env)))
	if err = b.fork(ctx, one.Init, b.Namespaces()&templateFlags); err == nil {
		err = one.execute(ctx, stand, launch.ForInit)
	}
	if err == nil && b.root {
		err = b.uids.MapAll(one.pid)
	}
	if err == nil {
		err = one.execute(ctx, p, launch.ForInit)
	}
	pipes.closeProgramEnds()
	if err != nil {
		one.Remove()
		return nil, fmt.Errorf("%w%s", err, lastOutput(pipes.ours[2]))
	}
	one.rooted, one.foreign = true, true
	return one, nil
}

// lastOutput returns the output of a dead forker, for an error.
func lastOutput(output *os.File) string {
	output.SetReadDeadline(time.Now().Add(time.Second))
	text, _ := io.ReadAll(io.LimitReader(output, 500))
	if len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}

// ForkerDir is the directory of the forker's file in its own root. Each sandbox mounts its own directory over it.
const ForkerDir = "/tmp"

// forkerPlans returns two plans: the setup of a template, after which root has to map users, and the rest up to
// execve.
func (b *Backend) forkerPlans(one *Template, r runtimes.Runtime, f Forker, streams [3]*os.File) (first, p *plan) {
	first = newPlan(112)
	root := b.setUpTemplateRoot(first, one, r)
	first.write(newRoot+ForkerDir+"/"+f.File, string(f.Code), unix.O_CREAT, 0o644)
	enterRoot(first)
	one.states = root.states
	if b.root {
		becomeUser(first, one.uid)
		first.do("unshare(user, mount)", unix.SYS_UNSHARE, val(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	}
	first.sendReady()
	p = newPlan(112)
	// The namespace has no root when the forker is executed: otherwise the kernel would give a child that is not
	// dumpable to that root, whose program could list /proc/1/fd, or to the host's root.
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
	// Python makes the script's name absolute at its start.
	p.do("chdir "+workspace, unix.SYS_CHDIR, p.str(workspace))
	return first, p
}

// keepCapabilities preserves the capabilities in the user namespace across execve, although the process is not root
// there.
func keepCapabilities(p *plan) {
	const version3, all = 0x20080522, ^uint32(0)
	p.do("capset", unix.SYS_CAPSET, value(p, [2]uint32{version3}), value(p, [6]uint32{all, all, all, all, all, all}))
	for c := range 64 {
		p.try("prctl(PR_CAP_AMBIENT_RAISE)", unix.SYS_PRCTL, val(unix.PR_CAP_AMBIENT), val(unix.PR_CAP_AMBIENT_RAISE), val(c), val(0), val(0))
	}
}
