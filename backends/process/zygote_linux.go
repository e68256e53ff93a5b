package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/zygote"
)

// pythonZygote is a nest in which a Python has started, up to where it would run its script, and bears
// PID 1s that are forks of it: see package zygote. It is never the host's root: it has rights in a user
// namespace of its own, whose only user is the unprivileged one of the sandboxes, and over what is mounted in it.
type pythonZygote struct {
	*nest
	since time.Time
	used  time.Time  // last; zygotes.mu guards it
	mu    sync.Mutex // guards forks
	forks int
}

// zygotes are those of a backend, one for each script's name and root.
type zygotes struct {
	backend *Backend
	mu      sync.Mutex
	warm    map[string]*pythonZygote
	coming  starts
	failed  map[string]failure
	closed  bool
}

// failure is why a zygote could not be had, for a while.
type failure struct {
	why   error
	until time.Time
	pause time.Duration
}

const (
	// A zygote's forks share its hash seed, its canaries and where everything lies in memory. That is bounded.
	mostForks = 1000
	mostAge   = 10 * time.Minute
	// answering is how long a zygote may take to fork, which takes it a millisecond, and bearing how long it may take
	// until what it bore is prepared: a run may be waiting, that would have begun without it by then.
	answering, bearing = time.Second, 5 * time.Second
	// A zygote that fails is tried again after the first, and after twice as long each time, up to the second.
	pauseFirst, pauseMost = time.Second, 10 * time.Minute
	// mostZygotes is how many stand ready, and mostFailures how many failures are remembered: callers choose the names of scripts.
	mostZygotes, mostFailures = 4, 64
)

func scriptKind(r runtimes.Runtime, script string) string { return script + " " + shows(r) }

// ready says whether one stands ready, so that nobody would wait for its start.
func (z *zygotes) ready(r runtimes.Runtime, script string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	one := z.warm[scriptKind(r, script)]
	return one != nil && one.good()
}

// of returns the zygote for a script of a runtime, and starts it where there is none that is fit. Who calls it
// must leave it when it is done.
func (z *zygotes) of(ctx context.Context, r runtimes.Runtime, script string) (*pythonZygote, error) {
	kind := scriptKind(r, script)
	for {
		z.mu.Lock()
		one, err := z.standing(kind)
		if one != nil || err != nil {
			z.mu.Unlock()
			return one, err
		}
		other := z.coming[kind]
		if other == nil {
			begun := z.coming.begin(ctx, kind)
			z.mu.Unlock()
			one, err = z.backend.startZygote(begun, r, script)
			return z.add(begun, kind, one, err)
		}
		z.mu.Unlock()
		if err := other.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// standing returns the zygote of a kind, if one is fit, or why none can be had. The caller has locked.
func (z *zygotes) standing(kind string) (*pythonZygote, error) {
	if z.closed {
		return nil, errClosed
	}
	if old := z.warm[kind]; old != nil {
		good := old.good()
		if good && !old.worn() && old.enter() {
			old.used = time.Now()
			return old, nil
		}
		delete(z.warm, kind)
		old.give(!good)
	}
	if last := z.failed[kind]; time.Now().Before(last.until) {
		return nil, last.why
	}
	return nil, nil
}

// add keeps what has been started, in the place of the least lately used if there are many, or remembers why it failed.
func (z *zygotes) add(ctx context.Context, kind string, one *pythonZygote, err error) (*pythonZygote, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	cancelled := ctx.Err() != nil
	z.coming.end(kind)
	switch {
	case err != nil:
		if !cancelled {
			z.fail(kind, err)
		}
		return nil, err
	case z.closed:
		one.remove()
		return nil, errClosed
	}
	if len(z.warm) >= mostZygotes {
		least := slices.MinFunc(slices.Collect(maps.Keys(z.warm)), func(a, b string) int { return z.warm[a].used.Compare(z.warm[b].used) })
		z.warm[least].give(false)
		delete(z.warm, least)
	}
	one.enter()
	one.used = time.Now()
	z.warm[kind] = one
	return one, nil
}

// tidy gives up those that nobody has used for so long, and says whether others are left.
func (z *zygotes) tidy(idle time.Duration) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	for kind, one := range z.warm {
		if time.Since(one.used) > idle {
			delete(z.warm, kind)
			one.give(false)
		}
	}
	return len(z.warm)+len(z.coming) > 0
}

// fail remembers a failure. The caller has locked.
func (z *zygotes) fail(kind string, why error) {
	pause := min(cmp.Or(2*z.failed[kind].pause, pauseFirst), pauseMost)
	if _, known := z.failed[kind]; !known && len(z.failed) >= mostFailures {
		delete(z.failed, slices.MinFunc(slices.Collect(maps.Keys(z.failed)), func(a, b string) int { return z.failed[a].until.Compare(z.failed[b].until) }))
	}
	z.failed[kind] = failure{why, time.Now().Add(pause), pause}
}

// drop gives up a zygote that does not do what it has to.
func (z *zygotes) drop(bad *pythonZygote, why error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for kind, one := range z.warm {
		if one == bad {
			delete(z.warm, kind)
			z.fail(kind, why)
		}
	}
	bad.give(false) // others that it bore may be well
}

// bear has a zygote bear a PID 1.
func (z *zygotes) bear(ctx context.Context, r runtimes.Runtime, script string) (*birth, error) {
	one, err := z.of(ctx, r, script)
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, bearing)
	defer cancel()
	child, err := z.backend.bearBy(soon, one)
	if err != nil {
		if ctx.Err() == nil {
			z.drop(one, err)
		}
		one.leave()
		return nil, err
	}
	child.nest, child.zygote = one.nest, one
	return child, nil
}

func (z *zygotes) close() {
	z.mu.Lock()
	z.closed = true
	for one := range maps.Values(z.warm) {
		one.remove()
	}
	z.warm = nil
	coming := z.coming.cancel()
	z.mu.Unlock()
	for _, one := range coming {
		<-one.over
	}
}

// worn says whether it has been forked often, or long, enough.
func (z *pythonZygote) worn() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.forks++
	return z.forks > mostForks || time.Since(z.since) > mostAge
}

// give gives a zygote up: it ends with the last that it bore. What it shows is stale if those that wait for
// programs are of no use, either.
func (z *pythonZygote) give(stale bool) {
	if stale {
		z.retire()
		return
	}
	z.wear()
}

// startZygote has a launcher fork a PID 1, that furnish the root, and become a Python.
func (b *Backend) startZygote(ctx context.Context, r runtimes.Runtime, script string) (*pythonZygote, error) {
	code, err := b.pool.bytecode(ctx, r.Path, "zygote", zygote.Source())
	if err != nil {
		return nil, err
	}
	child, err := b.conceive()
	if err != nil {
		return nil, err
	}
	in, said, theirs, err := zygotePipes()
	if err != nil {
		child.release()
		return nil, err
	}
	defer said.Close()
	one := &nest{birth: child, looked: time.Now(), answers: answering}
	s := &sandbox{backend: b, runtime: r, limits: backends.DefaultLimits}
	args := []string{"python", script}
	program := s.resolve(args, nil)[0]
	stand, p := b.zygotePlans(one, r, code, [3]*os.File{in, theirs, theirs})
	p.do("execve "+program, unix.SYS_EXECVE, p.str(program), p.strs(args), p.strs(s.environ([]string{"PYTHONPATH=" + zygoteDir})))
	flags := uint64(unix.CLONE_NEWNS | unix.CLONE_NEWPID)
	if !b.root {
		flags |= unix.CLONE_NEWUSER
	}
	ctx, cancel := context.WithTimeout(ctx, parkingTime)
	defer cancel()
	if err = b.launch(ctx, one.birth, flags); err == nil {
		err = one.follow(ctx, stand, launch.ForInit)
	}
	if err == nil && b.root {
		err = b.uids.mapAll(one.pid)
	}
	if err == nil {
		err = one.follow(ctx, p, launch.ForInit)
	}
	in.Close()
	theirs.Close()
	if err != nil {
		one.remove()
		return nil, fmt.Errorf("start a Python to fork: %w%s", err, lastWords(said))
	}
	return &pythonZygote{nest: one, since: time.Now()}, nil
}

// zygotePipes are for a zygote's descriptors 0 to 2: programs' are pipes, too.
func zygotePipes() (in, said, theirs *os.File, err error) {
	in, nothing, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	nothing.Close()
	if said, theirs, err = os.Pipe(); err != nil {
		in.Close()
	}
	return in, said, theirs, err
}

// lastWords is what a zygote that is dead has said, for an error.
func lastWords(said *os.File) string {
	said.SetReadDeadline(time.Now().Add(time.Second))
	text, _ := io.ReadAll(io.LimitReader(said, 500))
	if len(text) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(text))
}

// zygoteDir is where the zygote's program lies in its own root. Each sandbox mounts its own folder there.
const zygoteDir = "/tmp"

// zygotePlans are two: a nest's, at the end of which root has to map users, and the rest, up to where Python is executed.
func (b *Backend) zygotePlans(one *nest, r runtimes.Runtime, code []byte, streams [3]*os.File) (first, p *plan) {
	first = newPlan()
	root := b.furnishNest(first, one, r)
	first.write(newRoot+zygoteDir+"/"+zygote.File, string(code), unix.O_CREAT, 0o644)
	enter(first)
	one.looks = root.looks
	if b.root {
		becomeUser(first, one.uid)
		first.do("unshare(user, mount)", unix.SYS_UNSHARE, val(unix.CLONE_NEWUSER|unix.CLONE_NEWNS))
	}
	first.ready()
	p = newPlan()
	// Nobody is root in the namespace in which Python is executed: to the kernel, what it bears and is not dumpable is that
	// root's, whose program could list /proc/1/fd, or else the host's.
	keepCapabilities(p)
	if b.root {
		p.prctl("PR_SET_PDEATHSIG", unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	}
	var aside [3]arg
	for i, f := range streams {
		aside[i] = p.aside("dup stream", p.file(f))
	}
	p.set(slot(launch.SlotControl), "dup control", unix.SYS_FCNTL, slot(launch.SlotControl), val(unix.F_DUPFD_CLOEXEC), val(firstAside))
	for i := range streams {
		p.do("dup3", unix.SYS_DUP3, aside[i], val(i), val(0))
	}
	p.do("dup3 control", unix.SYS_DUP3, slot(launch.SlotControl), val(launch.Sock), val(0))
	p.do("close_range", unix.SYS_CLOSE_RANGE, val(launch.Sock+1), val(^uint32(0)), val(unix.CLOSE_RANGE_CLOEXEC))
	p.do("sigprocmask", unix.SYS_RT_SIGPROCMASK, val(unix.SIG_SETMASK), value(p, uint64(0)), val(0), val(8))
	// Python makes the script's name absolute when it starts.
	p.do("chdir "+workspace, unix.SYS_CHDIR, p.str(workspace))
	return first, p
}

// keepCapabilities has what is executed next keep what it has in its user namespace, although it is not root there.
func keepCapabilities(p *plan) {
	const version3, all = 0x20080522, ^uint32(0)
	p.do("capset", unix.SYS_CAPSET, value(p, [2]uint32{version3}), value(p, [6]uint32{all, all, all, all, all, all}))
	for c := range 64 {
		p.try("prctl(PR_CAP_AMBIENT_RAISE)", unix.SYS_PRCTL, val(unix.PR_CAP_AMBIENT), val(unix.PR_CAP_AMBIENT_RAISE), val(c), val(0), val(0))
	}
}

// borne has a sandbox's PID 1 borne by a zygote, for a script that is to be held.
func (s *sandbox) borne(ctx context.Context) (*birth, error) {
	if s.held == "" || !s.plain() {
		return nil, errors.New("nothing is held")
	}
	return s.backend.zygotes.bear(ctx, s.runtime, s.held)
}

// mother is the zygote that bore a sandbox's PID 1, if one did.
func (s *sandbox) mother() *pythonZygote {
	if s.birth == nil {
		return nil
	}
	return s.zygote
}
