package process

import (
	"cmp"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/files"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/seccomp"
)

// Sandbox is one PID 1 and its descendants. It implements [backends.Sandbox].
type Sandbox struct {
	backend *Backend
	profile
	constraints
	view
	ports
	*Init
	descriptors
	programs
	lifetime
	mu sync.Mutex // guards the fields that say so
}

// profile is the kind of a sandbox.
type profile struct {
	id           string
	landlockOnly bool // the profile "landlock": no namespaces, no root directory of its own
	inContainer  bool // inside a container, which has made them
	keep         bool
	require      []string
}

// constraints are the limits of a sandbox.
type constraints struct {
	limits  backends.Limits // at the start
	inForce backends.Limits // as changed by Limit; guarded by mu
	ram     atomic.Int64    // of inForce
	tasks   uint64          // maximum of threads at once
	cpus    *unix.CPUSet    // its CPUs, where no cgroup counts, and
	bound   []int           // their numbers
	filter  []byte          // of system calls
}

// view are the files that a sandbox shows.
type view struct {
	mounts  []backends.Mount
	host    backends.Mount     // the host directory that is the workspace, if any
	copied  string             // why the workspace is a copy of that, of host.Propose; "" where it is an overlay
	trust   []byte             // of spec.Trust
	etc     map[string]string  // of spec.Etc
	home    string             // of spec.Home
	guest   string             // the file of this program, if it is shown
	owned   []owned            // mounts with another owner on the host
	hostDir string             // landlockOnly: its directory on the host, with
	dir     string             // the workspace, unless that is the host's,
	tmp     string             // and a directory for temporary files
	runtime runtimes.Runtime   // its interpreter
	joined  []runtimes.Runtime // the parts of runtime, of AnyProgram
}

// ports are the ways of a sandbox to the network.
type ports struct {
	sockets      []insideSocket   // on its loopback, passed to the server
	gatewayPorts []int            // of spec.Gateway
	gateway      backends.Sockets // of spec.Gateway
}

// descriptors are the files of a sandbox that the server holds open.
type descriptors struct {
	files     *files.Files
	proc      *os.File            // /proc of PID 1
	shm       *os.File            // /proc/sysvipc/shm of PID 1
	disk      *os.File            // its /tmp, on the file system that bounds its writes
	procFiles map[string]*os.File // files of /proc that are read often; guarded by mu
}

// programs are the processes that PID 1 starts for the server.
type programs struct {
	starting sync.Mutex // held until the Status of one command
	starts   chan report
	lives    map[int32]*programRecord // of programs, by their numbers inside; guarded by mu
	begun    atomic.Int32             // number of programs
	exited   atomic.Bool              // the only program has ended, and only PID 1 was alive
}

// lifetime is what the end of a sandbox waits for and causes.
type lifetime struct {
	hooks     Hooks
	notifying sync.WaitGroup // runs serveNotifications
	using     sync.WaitGroup // commands, their watchers, and other users of our descriptors
	closing   bool           // use fails; guarded by mu
	gone      chan struct{}  // closed when PID 1's end of control is closed: it is dead or dying
	close     sync.Once
}

// Hooks tell the owner of a sandbox about its ends. They must not be nil.
type Hooks struct {
	Ended   func(pid int32) // a program, or PID 1 if pid is 0
	Closing func()          // Close begins
	Removed func()          // nothing is left
}

// noHooks are the hooks of a sandbox that nobody owns.
var noHooks = Hooks{func(int32) {}, func() {}, func() {}}

// SetHooks must be called before Launch.
func (s *Sandbox) SetHooks(h Hooks) { s.hooks = h }

// HasNamespaces reports that the sandbox has namespaces of its own, and does not use the host's or the container's.
func (s *Sandbox) HasNamespaces() bool { return !s.landlockOnly && !s.inContainer }

// Runtime returns its interpreter.
func (s *Sandbox) Runtime() runtimes.Runtime { return s.runtime }

// Workspace returns the directory of its workspace.
func (s *Sandbox) Workspace() *os.Root { return s.files.Root() }

// HostIndependent reports whether the sandbox shows of the host only the system and its runtime, as a template's root
// does.
func (s *Sandbox) HostIndependent() bool {
	own := s.host.Host != "" || len(s.mounts) != len(s.runtime.Prefixes) || len(s.trust) > 0 || len(s.etc) > 0 || s.home != "" || s.guest != ""
	return s.HasNamespaces() && !own && !hidesPath(s.runtime)
}

// Files implements [backends.Sandbox].
func (s *Sandbox) Files() backends.Files { return s.files }

// keepOpen keeps our descriptors open until the returned function is called.
func (s *Sandbox) keepOpen() (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errors.New("the sandbox is closed")
	}
	s.using.Add(1)
	return s.using.Done, nil
}

// insideID is the program's user and group number inside, whatever they are outside.
const insideID = 1000

// notifies reports whether the kernel sends this process the sandbox's chmod and utimensat calls, see package notify:
// not of root's sandboxes, whose user owns nothing on the host.
func (s *Sandbox) notifies() bool { return s.landlockOnly && s.uid == 0 }

// writesHost reports whether a directory of the host is mounted for writing.
func (s *Sandbox) writesHost() bool {
	return s.host.Write || slices.ContainsFunc(s.mounts, func(m backends.Mount) bool { return m.Write })
}

// overlays reports whether the workspace is an overlay over the host's directory.
func (s *Sandbox) overlays() bool { return s.host.Propose && s.copied == "" }

// idsOf returns the user namespace that maps the owner of a host path; nil if there is none.
func (s *Sandbox) idsOf(host string) *os.File {
	for _, o := range s.owned {
		if o.host == host {
			return o.ids
		}
	}
	return nil
}

// hostUID returns the user whose processes the sandbox's are to the host's kernel.
func (s *Sandbox) hostUID() int { return cmp.Or(s.uid, os.Geteuid()) }

// filterKind returns the kind of the sandbox's seccomp filter.
func (s *Sandbox) filterKind() seccomp.Kind {
	writes := s.landlockOnly || s.writesHost()
	return seccomp.Kind{Namespaces: !s.landlockOnly, Affinity: s.cpus == nil, WritesHost: writes, Notifies: s.notifies(), InContainer: s.inContainer,
		NoInternet: s.noInternet()}
}

// noInternet reports whether programs get no sockets of IPv4 and IPv6.
func (s *Sandbox) noInternet() bool { return s.backend.config.NoInternet && len(s.gatewayPorts) == 0 }

// programRecord collects the messages about one program after its status.
type programRecord struct {
	exit   chan launch.Message
	ready  bool            // its status has come: execve comes next
	denied bool            // a step before its status has failed, which its start was told
	failed *launch.Message // execve's error; set before exit is sent
}

// report is a message with the text and the files that came with it.
type report struct {
	launch.Message
	text  []byte
	files []*os.File // that came with it
}

// insideSocket is a socket to open in the sandbox's network namespace.
type insideSocket struct {
	kind int // SOCK_STREAM or SOCK_DGRAM
	at   netip.AddrPort
}

// owned is a host path that the sandbox's user may write, although another user owns it on the host.
type owned struct {
	host string
	ids  *os.File // a user namespace that maps the owner to the sandbox's user
}
