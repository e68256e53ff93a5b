package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
)

// sandbox is one PID 1 and what lives below it.
type sandbox struct {
	backend      *Backend
	id           string
	landlockOnly bool // the profile "landlock": no namespaces, no root of its own
	inContainer  bool // inside a container: those are the container's
	keep         bool
	require      []string
	limits       backends.Limits // that it was started with
	mounts       []backends.Mount
	host         backends.Mount    // the host folder that is the workspace, if any
	sockets      []inside          // on its loopback, that lead to us
	gatewayPorts []int             // of spec.Gateway
	trust        []byte            // of spec.Trust
	etc          map[string]string // of spec.Etc
	owned        []owned           // mounts whose owner on the host is another
	hostDir      string            // weak: a folder of our own on the host, with
	dir          string            // the workspace, if that is not the host's,
	tmp          string            // and a folder for temporary files
	runtime      runtimes.Runtime
	idle         *idleProcess // what waits in it for the first command
	tasks        uint64       // threads that may live at once
	cpus         *unix.CPUSet // CPUs to keep to, where no cgroup counts

	joined []runtimes.Runtime // what runtime joins, of AnyProgram

	*initHandle
	files *files
	proc  *os.File // /proc as PID 1 sees it
	shm   *os.File // /proc/sysvipc/shm, likewise
	disk  *os.File // its /tmp, on the file system that bounds what it writes

	starting  sync.Mutex // one command is between Started and Status at a time
	starts    chan report
	mu        sync.Mutex
	lives     map[int32]*life  // of programs, by their pids inside
	inForce   backends.Limits  // that Limit has changed
	ram       atomic.Int64     // of them
	listeners []net.Listener   // of spec.Listen
	gateway   backends.Sockets // of spec.Gateway
	begun     atomic.Int32     // programs
	exited    atomic.Bool      // the only one has ended, and nobody but PID 1 was alive
	notifying sync.WaitGroup   // to what the kernel asks for programs
	using     sync.WaitGroup   // commands, their watchers, and whoever else uses our descriptors
	closing   bool             // nobody may begin to
	gone      chan struct{}    // PID 1's end of control is closed: it is dead or dying
	close     sync.Once
}

// life is what is told of one program after it was ready.
type life struct {
	exit   chan launch.Message
	ready  bool            // it has said so: execve comes next
	failed *launch.Message // and did not succeed; set before exit is sent
}

// report is a message with the text behind it.
type report struct {
	launch.Message
	text  []byte
	files []*os.File // that came with it
}

// Start implements [backends.Backend].
func (b *Backend) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	var s *sandbox
	var err error
	if b.preSpawned != nil {
		s, err = b.preSpawned.start(ctx, spec)
	} else {
		s, err = b.inTime(ctx, spec, b.spawn)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	finished := b.finished
	b.running[s] = struct{}{}
	b.mu.Unlock()
	if finished {
		s.Close()
		return nil, warm.ErrClosed
	}
	return s, nil
}

// spawner gives a sandbox its PID 1.
type spawner func(context.Context, *sandbox) (*initHandle, error)

// startNew makes a sandbox.
func (b *Backend) startNew(ctx context.Context, spec backends.Spec, spawn spawner) (*sandbox, error) {
	s, err := b.plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx, spawn); err != nil {
		s.Close()
		return nil, b.diagnose(s, err)
	}
	return s, nil
}

// plan decides what the sandbox will be, and refuses what can't be.
func (b *Backend) plan(ctx context.Context, spec backends.Spec) (*sandbox, error) {
	s := &sandbox{
		backend: b, id: spec.ID, keep: spec.Keep, require: spec.Require,
		limits: spec.Limits.WithDefaults(),
		lives:  map[int32]*life{}, starts: make(chan report, 8), gone: make(chan struct{}),
	}
	s.ram.Store(s.limits.RAM)
	s.inForce = s.limits
	s.sockets, s.gatewayPorts, s.trust, s.etc = s.insides(spec), spec.Gateway, spec.Trust, spec.Etc
	switch spec.Profile {
	case "", "hardened":
		s.inContainer = b.config.Inside
	case "landlock":
		if b.config.Inside {
			return nil, &backends.Refusal{Reason: "a container has only the profile hardened"}
		}
		if len(spec.Etc) > 0 {
			return nil, &backends.Refusal{Reason: "the profile landlock shows no files of /etc but the host's"}
		}
		s.landlockOnly = true
	default:
		return nil, &backends.Refusal{Reason: fmt.Sprintf("the process backend has no profile %q", spec.Profile), Remedy: "use hardened or landlock"}
	}
	if len(spec.GPUs) > 0 && !s.inContainer {
		return nil, &backends.Refusal{Reason: "the process backend shows no GPUs", Remedy: "use a container: --backend docker or --backend podman"}
	}
	if b.landlockABI == 0 && !s.inContainer {
		return nil, noLandlock
	}
	if s.landlockOnly && b.landlockABI < truncateABI {
		return nil, &backends.Refusal{
			Layer:  backends.LayerLandlock,
			Reason: fmt.Sprintf("the profile landlock has nothing else that keeps files of the host, and this kernel's Landlock (ABI %d) lets them be emptied", b.landlockABI),
			Remedy: "use a kernel of 6.2 or newer, or the profile hardened"}
	}
	var err error
	if !s.inContainer { // or else whoever made the container has checked
		if spec, err = b.checkMounts(spec); err != nil {
			return nil, err
		}
	}
	s.host = spec.Workspace
	if err := checkListen(spec, s.landlockOnly); err != nil {
		return nil, err
	}
	var missing *runtimes.Missing
	if spec.Language == backends.AnyProgram {
		s.runtime, s.joined = b.every(ctx, s.landlockOnly)
	} else if s.runtime, err = b.runtime(ctx, spec.Language); errors.As(err, &missing) {
		return nil, &backends.Refusal{Reason: "no " + missing.Language + ": " + missing.Reason, Remedy: missing.Remedy}
	} else if err != nil {
		return nil, &backends.Refusal{Reason: err.Error()}
	}
	if b.root && s.landlockOnly && s.runtime.Path != "" {
		if dir := closed(s.runtime.Path); dir != "" {
			return nil, &backends.Refusal{
				Reason: fmt.Sprintf("%s lies below %s, which is closed to the unprivileged user that it would run as", s.runtime.Path, dir),
				Remedy: "install it for all users, or start sandboxmcp as an ordinary user"}
		}
	}
	if err := s.checkRuntime(spec.Mounts); err != nil {
		return nil, err
	}
	s.mounts = mountsOf(s.runtime.Prefixes, spec.Mounts)
	s.tasks = uint64(backends.Tasks(spec.Language, s.limits.Processes))
	if s.inContainer {
		s.dir, s.tmp = workspace, "/tmp"
	}
	return s, nil
}

// shared says that there are no namespaces of the sandbox's own: they are the host's or the container's.
func (s *sandbox) shared() bool { return s.landlockOnly || s.inContainer }

// hostIndependent says that the sandbox shows of the host what all show, and its runtime.
func (s *sandbox) hostIndependent() bool {
	return !s.shared() && s.host.Host == "" && len(s.mounts) == len(s.runtime.Prefixes) && len(s.trust) == 0 && len(s.etc) == 0 && !covers(s.runtime)
}

// start has PID 1 furnish the sandbox.
func (s *sandbox) start(ctx context.Context, spawn spawner) (err error) {
	if s.initHandle, err = spawn(ctx, s); err != nil {
		return err
	}
	if s.landlockOnly {
		if err := s.makeDir(); err != nil {
			return err
		}
	}
	s.checkCgroup()
	if err := s.satisfies(s.promised()); err != nil {
		return err
	}
	if err := s.cgroup.Limit(boundsOf(s.limits, s.tasks)); err != nil {
		return err
	}
	if !s.cgroup.Enforces("cpu") {
		s.cpus = pick(s.limits.CPU)
	}
	if err := s.backend.filters.prepare(s.filterKind()); err != nil {
		return err
	}
	if err := s.own(ctx); err != nil {
		return err
	}
	var work, notifications *os.File
	sockets := make([]*os.File, len(s.sockets))
	files := []**os.File{&work, &s.proc, &s.shm, &s.disk}
	for i := range sockets {
		files = append(files, &sockets[i])
	}
	if s.notifies() {
		files = append(files, &notifications)
	}
	if err := s.follow(ctx, s.setupPlan(), launch.ForInit, files...); err != nil {
		return err
	}
	defer work.Close()
	if notifications != nil {
		s.notifying.Go(func() { s.serveNotifications(notifications) })
	}
	if err := s.open(sockets); err != nil {
		return err
	}
	if s.files, err = openFiles(work, s.uid, s.host.Host == ""); err != nil {
		return err
	}
	go s.hear()
	if s.cgroup != nil {
		return s.cgroup.Check(s.pid)
	}
	return nil
}

func (s *sandbox) setupPlan() *plan {
	switch {
	case s.landlockOnly:
		return s.backend.landlockSetup(s)
	case s.inContainer:
		return s.backend.containerSetup(s)
	}
	return s.backend.setup(s)
}

func messageBytes(m *launch.Message) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), messageSize)
}

// hear sorts PID 1's messages until PID 1 is gone.
func (s *sandbox) hear() {
	defer close(s.gone)
	buf := make([]byte, int(messageSize)+linkSize*len(namespaceLinks)+statusSize)
	for {
		n, files, err := receive(s.control, buf)
		if err != nil || n < int(messageSize) {
			closeAll(files)
			return
		}
		var m launch.Message
		copy(messageBytes(&m), buf)
		if s.later(m) {
			continue
		}
		select {
		case s.starts <- report{m, append([]byte(nil), buf[messageSize:n]...), files}:
		case <-time.After(time.Second): // nobody listens: an Exec that gave up
			closeAll(files)
		}
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// later keeps what concerns a program after it was ready, and says whether m was that. All else is
// for whoever starts a program just now.
func (s *sandbox) later(m launch.Message) bool {
	switch l := s.life(m.Pid); m.Kind {
	case launch.Status:
		l.ready = true
	case launch.Failed:
		if l.ready {
			l.failed = &m
		}
		return l.ready
	case launch.Exited:
		select {
		case l.exit <- m:
		default: // nobody has waited for the last of that number
			s.forget(m.Pid)
		}
		return true
	}
	return false
}

// life is that of the program pid, which is new if nobody has heard of it.
func (s *sandbox) life(pid int32) *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lives[pid] == nil {
		s.lives[pid] = &life{exit: make(chan launch.Message, 1)}
	}
	return s.lives[pid]
}

func (s *sandbox) forget(pid int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lives, pid)
}

// Files implements [backends.Sandbox].
func (s *sandbox) Files() backends.Files { return s.files }

// kill ends every process of the sandbox and returns when they are gone.
func (s *sandbox) kill() {
	if s.initHandle != nil {
		s.initHandle.kill()
	}
}

// use keeps our descriptors open until the returned function is called.
func (s *sandbox) use() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errors.New("the sandbox is closed")
	}
	s.using.Add(1)
	return s.using.Done, nil
}

// Close implements [backends.Sandbox].
func (s *sandbox) Close() error {
	var err error
	s.close.Do(func() {
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		s.dismiss()
		s.backend.mu.Lock()
		waited := s.backend.finished // for what is removed later
		s.backend.mu.Unlock()
		if waited || !s.quiet() {
			s.backend.teardowns.wait(func() { err = s.tearDown() })
			return
		}
		s.shut()
		err = s.files.close()
		s.initHandle.end()
		s.backend.teardowns.do(func() { s.tearDown() })
	})
	return err
}

// quiet says that nothing of the sandbox is alive but PID 1, and nothing in it is the host's: that nobody can tell
// whether its namespaces are gone.
func (s *sandbox) quiet() bool {
	begun := s.begun.Load()
	return s.files != nil && s.hostIndependent() && (begun == 0 || begun == 1 && s.exited.Load())
}

// tearDown ends what is alive, and removes all that belongs to the sandbox.
func (s *sandbox) tearDown() error {
	var err error
	s.kill()
	if s.files != nil { // and so listen runs, and sees that PID 1 is gone
		<-s.gone
		s.notifying.Wait()
		s.using.Wait()
		err = s.files.close()
	}
	s.shut()
	for _, f := range []*os.File{s.proc, s.shm, s.disk} {
		f.Close() // of nil, too
	}
	for _, o := range s.owned {
		o.ids.Close()
	}
	if s.initHandle != nil {
		s.initHandle.Remove()
	}
	if s.landlockOnly {
		err = errors.Join(err, s.removeDir())
	}
	s.backend.mu.Lock()
	delete(s.backend.running, s)
	s.backend.mu.Unlock()
	if s.backend.preSpawned != nil {
		s.backend.preSpawned.pool.Fill()
	}
	return err
}
