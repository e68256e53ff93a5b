package process

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/templates"
)

// Template is a process that forks the PID 1s of sandboxes. The simplest is a launcher. All others are PID 1s
// without programs, for the sandboxes with one interpreter: their root directory is already set up, whereas a
// launcher's child has to build one from sixty mounts and files.
//
// Such a PID 1 has its own mount and PID namespaces, and if an ordinary user started the server a user namespace,
// in which that user has all capabilities. The PID namespaces of its sandboxes are descendants of its own, so that
// they can't address it, and end with it. It keeps the rights that the setup needs, like a launcher's children
// before their setup.
type Template struct {
	*Init
	templates.Use
	states   []pathState   // of the host paths that its root shows
	checking sync.Mutex    // guards the next two
	checked  time.Time     // last comparison of states with the host
	stale    bool          // a comparison has failed
	cloning  chan struct{} // contains a token while a request is pending
	lost     error         // why a request got no answer, which may still come; guarded by cloning
}

// hidesPath reports whether a sandbox's own file systems hide a path that the runtime needs.
func hidesPath(r runtimes.Runtime) bool {
	return slices.ContainsFunc(slices.Concat(r.Prefixes, slices.Collect(maps.Keys(r.Links))), func(name string) bool {
		return slices.ContainsFunc(ownDirs, func(dir string) bool { return paths.Within(name, dir) })
	})
}

// StartTemplate has a launcher fork a PID 1, which sets up the root.
func (b *Backend) StartTemplate(ctx context.Context, r runtimes.Runtime) (*Template, error) {
	if cgroup.IsUnified() {
		b.cgroups.FindBase() // see SpawnByLauncher
	}
	one := &Template{cloning: make(chan struct{}, 1), Init: &Init{killTimeout: b.config.KillTimeout}, checked: time.Now()}
	p := newPlan(136)
	one.states = b.setUpTemplateRoot(p, one, r).states
	enterRoot(p)
	p.sendReady()
	err := b.fork(ctx, one.Init, b.Namespaces()&templateFlags)
	if err == nil {
		err = one.execute(ctx, p, launch.ForTemplate)
	}
	if err != nil {
		one.Remove()
		return nil, fmt.Errorf("start a template: %w", err)
	}
	one.rooted = true
	return one, nil
}

// setUpTemplateRoot compiles the setup of a template's root.
func (b *Backend) setUpTemplateRoot(p *plan, one *Template, r runtimes.Runtime) *root {
	p.do("umask", unix.SYS_UMASK, val(0o022))
	if !b.root {
		mapUser(p, insideID, os.Geteuid(), os.Getegid())
	}
	p.prctl("PR_SET_DUMPABLE", unix.PR_SET_DUMPABLE, 0)
	p.prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	root := setUpRoot(p, b.config.Hidden)
	for _, prefix := range r.Prefixes {
		root.states = append(root.states, stateOf(prefix, os.Lstat), stateOf(prefix, os.Stat))
		root.bind(prefix, prefix, true)
	}
	for at, target := range r.Links {
		root.link(target, at)
	}
	for _, dir := range append([]string{diskAt}, ownDirs...) {
		root.mkdir(dir)
	}
	if one.uid != 0 {
		// The owner must exist in the user namespace of a forker's children, which pass through here.
		p.do("chown disk", unix.SYS_FCHOWNAT, cwd, p.str(newRoot+hiddenDisk), val(one.uid), val(one.uid), val(0))
	}
	p.do("hide disk", unix.SYS_FCHMODAT, cwd, p.str(newRoot+hiddenDisk), val(0))
	// The kernel permits a user to mount a new /proc only where one is visible. The sandboxes' /proc covers this
	// one, which would show a program that reached it only itself.
	p.mountProc(newRoot, "hidepid=ptraceable")
	return root
}

// templateFlags are a template's own namespaces.
const templateFlags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUSER

// unshareFlags are the namespaces that a template's child makes for itself, while the template forks the next.
const unshareFlags = namespaces&^cloneFlags | unix.CLONE_NEWCGROUP

// answerTimeout bounds a fork by a forker, which usually takes a millisecond.
const answerTimeout = time.Second

// cloneFlags are the namespaces that a child can only get from clone.
const cloneFlags = unix.CLONE_NEWPID | unix.CLONE_NEWTIME

// templateChildPlan makes the namespaces that a template's sandboxes do not share.
func (b *Backend) templateChildPlan(child *Init) *plan {
	p := newPlan(80)
	joinCgroups(child.cgroup, p)
	if b.root && child.foreign { // otherwise it still has to be root
		setUser(p, child.uid)
	}
	p.do("unshare", unix.SYS_UNSHARE, val(unshareFlags))
	setUpNamespaces(p, "")
	if b.root && !child.foreign { // otherwise it already belongs to the user
		for _, at := range []string{"/dev/pts", "/dev/pts/ptmx"} {
			p.do("chown "+at, unix.SYS_FCHOWNAT, cwd, p.str(at), val(child.uid), val(child.uid), val(0))
		}
	}
	readyWithLimits(p, child, "")
	return p
}

// SpawnByTemplate has an acquired template fork a PID 1, and prepares it.
func (b *Backend) SpawnByTemplate(ctx context.Context, n *Template) (*Init, error) {
	child, err := b.newInit()
	if err == nil {
		child.cgroup, err = b.cgroups.Create()
	}
	if err != nil {
		n.Spawned()
		n.Release()
	} else if err = n.fork(ctx, child, cloneFlags); err == nil {
		child.visible.texts = b.lastVisible.expected(child.cgroup)
		err = child.setUp(ctx, b.templateChildPlan(child))
	}
	if err != nil {
		child.Remove()
		return nil, err
	}
	return child, nil
}

// fork has an acquired template fork child's process with flags (CLONE_*).
func (n *Template) fork(ctx context.Context, child *Init, flags uint64) error {
	defer n.Spawned()
	ours, theirs, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		n.Release()
		return &forkError{err}
	}
	defer theirs.Close()
	if child.pidfd, child.pid, err = n.clone(ctx, flags, theirs, child.cgroup.Dir()); err != nil {
		ours.Close()
		n.Release()
		return err
	}
	child.control, child.template, child.rooted, child.foreign = ours, n, n.rooted, n.foreign
	return nil
}

// clone requests a process whose end of a socket is control, in a cgroup v2 directory if cgroup is not nil. It
// waits until ctx's deadline, for a forker at most answerTimeout, and then fails with [os.ErrDeadlineExceeded]; a
// cancellation does not end the wait. After an error other than [forkError] all requests fail: a late answer would
// be taken for that of the next request.
func (n *Template) clone(ctx context.Context, flags uint64, control, cgroup *os.File) (pidfd *os.File, pid int, err error) {
	select {
	case n.cloning <- struct{}{}:
		defer func() { <-n.cloning }()
	case <-ctx.Done():
		return nil, 0, stopReason(ctx)
	}
	if err = stopReason(ctx); err != nil { // it may have waited for another request that got no answer
		return nil, 0, err
	}
	if n.lost != nil {
		return nil, 0, fmt.Errorf("it gave no answer before: %v", n.lost)
	}
	if n.foreign {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerTimeout)
		defer cancel()
	}
	fds := []int{int(control.Fd())}
	if cgroup != nil {
		fds = append(fds, int(cgroup.Fd()))
	}
	if _, _, n.lost = n.control.WriteMsgUnix(raw([]launch.Request{{Flags: flags}}), unix.UnixRights(fds...), nil); n.lost != nil {
		return nil, 0, fmt.Errorf("ask for a process: %w", n.lost)
	}
	deadline, _ := ctx.Deadline() // or none
	n.control.SetReadDeadline(deadline)
	var reply [1]launch.Reply
	_, files, err := receive(n.control, raw(reply[:]))
	switch {
	case errors.Is(err, unix.EMFILE): // the process ends by itself, since its socket has no other end
		return nil, 0, &forkError{fmt.Errorf("clone3: %w", unix.EMFILE)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		n.lost = err
		return nil, 0, fmt.Errorf("clone3 did not return in time: %w", err)
	case err != nil:
		n.lost = err
		return nil, 0, fmt.Errorf("it died: %w", err)
	case reply[0].Errno != 0 || len(files) != 1:
		return nil, 0, &forkError{fmt.Errorf("clone3: %w", unix.Errno(reply[0].Errno))}
	}
	if pid, err = procfs.PIDOf(files[0]); err != nil {
		files[0].Close()
		return nil, 0, &forkError{err}
	}
	return files[0], pid, nil
}

// Good reports whether the template lives and its root still equals the host. It compares at most ten times a
// second, and stale is permanent, since a later caller may act on the answer instead of this one.
func (n *Template) Good() bool {
	const often = 100 * time.Millisecond
	n.checking.Lock()
	defer n.checking.Unlock()
	if n.stale || !n.alive() {
		return false
	}
	if now := time.Now(); now.Sub(n.checked) > often {
		n.checked = now
		n.stale = slices.ContainsFunc(n.states, pathState.changed)
	}
	return !n.stale
}

// distrust gives up the templates that this process descends from: its failure may be theirs, and recur in all
// their children. The pool does not use their other children any more.
func (b *Init) distrust() {
	if b == nil {
		return
	}
	b.mu.Lock()
	t := b.template
	b.mu.Unlock()
	if t == nil {
		return
	}
	t.checking.Lock()
	t.stale = true
	t.checking.Unlock()
	t.distrust()
}

// Current reports whether its template, if any, would still be used for another sandbox.
func (b *Init) Current() bool { return b.template == nil || b.template.Good() }

// Good reports whether PID 1 lives and equals a new one.
func (b *Init) Good() bool {
	return b.alive() && b.Current() && (b.outdated == nil || !b.outdated())
}
