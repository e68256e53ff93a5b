package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/files"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/templates"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

var _ backends.Backend = (*Backend)(nil)

// Start implements [backends.Backend].
func (b *Backend) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	s, err := InTime(ctx, b, func(ctx context.Context) (*Sandbox, error) {
		s, err := b.NewSandbox(ctx, spec)
		if err == nil {
			err = s.LaunchOrClose(ctx, b.Spawn)
		}
		return s, err
	})
	if err == nil {
		err = b.Register(s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Register makes Close end a sandbox; after Close, Register ends it at once.
func (b *Backend) Register(s *Sandbox) error {
	b.mu.Lock()
	finished := b.finished
	b.running[s] = struct{}{}
	b.mu.Unlock()
	if finished {
		s.Close()
		return templates.ErrClosed
	}
	return nil
}

// Close implements [backends.Backend].
func (b *Backend) Close() error {
	b.closing.Do(func() {
		b.CloseSandboxes()
		b.launchers.Close()
		b.cgroups.Close()
		b.mounts.close()
		b.closeWork()
		b.uids.Close()
	})
	return nil
}

// CloseSandboxes ends all sandboxes, and makes later Starts fail.
func (b *Backend) CloseSandboxes() {
	b.mu.Lock()
	b.finished = true
	open := slices.Collect(maps.Keys(b.running))
	b.mu.Unlock()
	for _, s := range open {
		s.Close()
	}
	b.teardowns.all.Wait()
}

// Probe implements [backends.Backend]. It starts a sandbox and closes it: only that shows which layers the host
// provides.
func (b *Backend) Probe(ctx context.Context, spec backends.Spec) (backends.Probe, error) {
	p := backends.Probe{Backend: b.Name()}
	for _, language := range backends.Languages {
		p.Runtimes = append(p.Runtimes, b.describe(ctx, language, true))
	}
	result, err := b.tryStart(ctx, spec)
	if err != nil {
		p.Why, p.Layers = backends.ReasonOf(err), backends.UntriedLayers(err)
		return p, nil
	}
	p.Layers, p.Usable = backends.TriedLayers(result.Contained.Layers, remedies), true
	return p, nil
}

// tryStart runs the shell's no-op in a sandbox.
func (b *Backend) tryStart(ctx context.Context, spec backends.Spec) (backends.Result, error) {
	spec.ID, spec.Language = "probe", "shell"
	s, err := b.Start(ctx, spec)
	if err != nil {
		return backends.Result{}, err
	}
	defer s.Close()
	return s.Exec(ctx, backends.Command{Args: []string{"bash", "-c", ":"}}, backends.Streams{})
}

// Spawn spawns the PID 1 of a sandbox that is to be launched.
type Spawn func(context.Context, *Sandbox) (*Init, error)

// Launch spawns the sandbox's PID 1, which sets it up.
func (s *Sandbox) Launch(ctx context.Context, spawn Spawn) (err error) {
	if s.Init, err = spawn(ctx, s); err != nil {
		return err
	}
	return s.start(ctx)
}

// LaunchOrClose is Launch; after a failure it closes the sandbox and explains what the host lacks.
func (s *Sandbox) LaunchOrClose(ctx context.Context, spawn Spawn) error {
	err := s.Launch(ctx, spawn)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && !errors.As(err, new(*backends.Refusal)) {
		s.distrust()
	}
	s.Close()
	return s.backend.diagnose(s, err)
}

// InTime enforces the deadline of a start also while this process itself waits for the kernel: the goroutine closes
// a sandbox that is finished too late.
func InTime[S io.Closer](ctx context.Context, b *Backend, start func(context.Context) (S, error)) (none S, _ error) {
	ctx, cancel := b.WithDeadline(ctx)
	type result struct {
		s   S
		err error
	}
	made, gone := make(chan result), make(chan struct{})
	go func() {
		defer cancel()
		s, err := start(ctx)
		select {
		case made <- result{s, err}:
		case <-gone:
			if err == nil {
				s.Close()
			}
		}
	}()
	select {
	case r := <-made:
		return r.s, r.err
	case <-ctx.Done():
	}
	// The start knows better where it was stopped, if it can still report it.
	select {
	case r := <-made:
		return r.s, r.err
	case <-time.After(2 * b.config.KillTimeout):
		close(gone)
		return none, fmt.Errorf("start a sandbox: %w, and still does not", stopReason(ctx))
	}
}

// NewSandbox decides the properties of a sandbox, and refuses impossible ones. It starts no process.
func (b *Backend) NewSandbox(ctx context.Context, spec backends.Spec) (*Sandbox, error) {
	s := &Sandbox{
		backend: b,
		profile: profile{id: spec.ID, keep: spec.Keep, require: spec.Require}, constraints: constraints{limits: spec.Limits.WithDefaults()},
		descriptors: descriptors{procFiles: map[string]*os.File{}}, programs: programs{lives: map[int32]*programRecord{},
			starts: make(chan report, 8)},
		lifetime: lifetime{gone: make(chan struct{}), hooks: noHooks},
	}
	s.ram.Store(s.limits.RAM)
	s.inForce = s.limits
	s.sockets, s.gatewayPorts, s.trust, s.etc = socketsOf(spec), spec.Gateway, spec.Trust, spec.Etc
	switch spec.Profile {
	case "", "hardened":
		s.inContainer = b.config.Inside
	case "landlock":
		if b.config.Inside {
			return nil, backends.Refuse("a container has only the profile hardened")
		}
		if len(spec.Etc) > 0 {
			return nil, backends.Refuse("the profile landlock shows only the host's files of /etc")
		}
		if spec.Home != "" || spec.Guest {
			return nil, backends.Refuse("the profile landlock, which can't mount, has no home directory of its own, and no guest agent",
				"use the profile hardened")
		}
		s.landlockOnly = true
	default:
		return nil, backends.Refuse(fmt.Sprintf("the process backend has no profile %q", spec.Profile), "use hardened or landlock")
	}
	if len(spec.GPUs) > 0 && !s.inContainer {
		return nil, backends.Refuse("the process backend shows no GPUs", "use a container: ", remedy.Backend.With("docker"), " or ",
			remedy.Backend.With("podman"))
	}
	if b.landlockABI == 0 && !s.inContainer {
		return nil, noLandlock
	}
	if s.landlockOnly && b.landlockABI < truncateABI {
		return nil, &backends.Refusal{
			Layer: backends.LayerLandlock,
			Reason: fmt.Sprintf("the profile landlock protects host files by Landlock alone, and this kernel's Landlock (ABI %d) permits "+
				"truncating them", b.landlockABI),
			Remedy: remedy.Text{"use a kernel of 6.2 or newer, or the profile hardened"}}
	}
	var err error
	if !s.inContainer { // otherwise the server that made the container has checked
		if spec, err = b.checkMounts(spec); err == nil {
			err = checkRights(ctx, append(slices.Clone(spec.Mounts), spec.Workspace))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := backends.CheckHome(spec); err != nil {
		return nil, err
	}
	s.host, s.home = spec.Workspace, spec.Home
	if spec.Guest && !s.inContainer { // a container has it already
		if s.guest, err = ownFile(); err != nil {
			return nil, err
		}
	}
	if err := checkListen(spec, s.landlockOnly); err != nil {
		return nil, err
	}
	if spec.Language == backends.AnyProgram {
		s.runtime, s.joined = b.allRuntimes(ctx, s.landlockOnly)
	} else if s.runtime, err = b.runtime(ctx, spec.Language); err != nil {
		if missing, is := errors.AsType[*runtimes.MissingError](err); is {
			return nil, backends.Refuse("no "+missing.Language+": "+missing.Reason, missing.Remedy)
		}
		return nil, backends.Refuse(err.Error())
	}
	if b.root && s.landlockOnly && s.runtime.Path != "" {
		if dir := closedParent(s.runtime.Path); dir != "" {
			return nil, backends.Refuse(fmt.Sprintf("%s is below %s, which the sandbox's unprivileged user can't enter", s.runtime.Path, dir),
				"install it for all users, or start sandboxmcp as an ordinary user")
		}
	}
	if err := s.checkRuntime(spec.Mounts); err != nil {
		return nil, err
	}
	for _, dir := range s.runtime.Prefixes {
		s.mounts = append(s.mounts, backends.Mount{Host: dir, Inside: dir})
	}
	s.mounts = append(s.mounts, spec.Mounts...)
	s.tasks = uint64(backends.MaxTasks(spec.Language, s.limits.Processes))
	if s.inContainer {
		s.dir, s.tmp = workspace, "/tmp"
	}
	return s, nil
}

// ownFile returns the path of this program's file, which the sandbox's user must be able to execute.
func ownFile() (string, error) {
	name, err := os.Executable()
	if err == nil {
		name, err = filepath.EvalSymlinks(name)
	}
	if err != nil {
		return "", fmt.Errorf("find the file of this program: %w", err)
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("find the file of this program: %w", err)
	}
	if info.Mode().Perm()&0o005 != 0o005 {
		return "", backends.Refuse(name+" can't be run by the unprivileged user of a sandbox", remedy.Command.With("chmod 755 "+name))
	}
	return name, nil
}

// start makes PID 1 set up the sandbox.
func (s *Sandbox) start(ctx context.Context) (err error) {
	if s.landlockOnly {
		if err := s.makeWorkspace(); err != nil {
			return err
		}
	}
	s.checkCgroup()
	if err := s.checkRequired(s.expectedContainment()); err != nil {
		return err
	}
	if err := s.cgroup.Limit(boundsOf(s.limits, s.tasks)); err != nil {
		return err
	}
	if !s.cgroup.Enforces("cpu") {
		s.bound, s.cpus = s.backend.cpus.Assign(s.limits.CPU)
	}
	if s.filter, err = s.backend.filters.ForKind(s.filterKind()); err != nil {
		return err
	}
	if err := s.chooseProposal(ctx); err != nil {
		return err
	}
	if err := s.mapOwners(ctx); err != nil {
		return err
	}
	if err := s.writeLimits(); err != nil {
		return err
	}
	var work, upper, notifications *os.File
	sockets := make([]*os.File, len(s.sockets))
	passed := []**os.File{&work, &s.proc, &s.shm, &s.disk}
	for i := range sockets {
		passed = append(passed, &sockets[i])
	}
	if s.overlays() {
		passed = append(passed, &upper)
	}
	if s.notifies() {
		passed = append(passed, &notifications)
	}
	if err := s.execute(ctx, s.setupPlan(), launch.ForInit, passed...); err != nil {
		return err
	}
	defer work.Close()
	if notifications != nil {
		s.notifying.Go(func() { s.serveNotifications(notifications) })
	}
	if s.gateway, err = backends.OpenSockets(sockets); err != nil {
		return err
	}
	if s.files, err = files.Open(work, s.uid, s.host.Host == "" || s.host.Propose); err != nil {
		return err
	}
	go s.receiveMessages()
	if err := s.propose(ctx, upper); err != nil {
		return err
	}
	if s.cgroup != nil {
		return s.cgroup.CheckMember(s.pid)
	}
	return nil
}

// setupPlan returns the plan by which PID 1 becomes that of the sandbox.
func (s *Sandbox) setupPlan() *plan {
	switch {
	case s.landlockOnly:
		return s.backend.landlockSetup(s)
	case s.inContainer:
		return s.backend.containerSetup(s)
	}
	return s.backend.setup(s)
}
