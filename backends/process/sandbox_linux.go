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
	mu sync.Mutex // guards the fields that name it
}

// profile is the kind of a sandbox.
type profile struct {
	id           string
	landlockOnly bool // profile "landlock": no namespaces, no root directory of its own
	inContainer  bool // inside a container, which provides them
	keep         bool
	require      []string
}

// constraints are the limits of a sandbox.
type constraints struct {
	limits  backends.Limits // at the start
	inForce backends.Limits // as changed by Limit; guarded by mu
	ram     atomic.Int64    // of inForce
	tasks   uint64          // maximum number of concurrent threads
	cpus    *unix.CPUSet    // its CPUs if no cgroup counts CPU time, and
	bound   []int           // their numbers
	filter  []byte          // seccomp filter
}

// view describes the files that a sandbox sees.
type view struct {
	mounts  []backends.Mount
	host    backends.Mount     // the host directory that is the workspace, if any
	copied  string             // why the workspace is a copy of host if host.Propose; "" for an overlay
	trust   []byte             // of spec.Trust
	etc     map[string]string  // of spec.Etc
	home    string             // of spec.Home
	guest   string             // path of this program's file, if it is visible
	owned   []owned            // mounts with another owner on the host
	hostDir string             // landlockOnly: its directory on the host, with
	dir     string             // the workspace, unless that is a host directory,
	tmp     string             // and a directory for temporary files
	runtime runtimes.Runtime   // its interpreter
	joined  []runtimes.Runtime // parts of runtime, of AnyProgram
}

// ports are a sandbox's connections to the network.
type ports struct {
	sockets      []insideSocket   // on its loopback, passed to the server
	gatewayPorts []int            // of spec.Gateway
	gateway      backends.Sockets // of spec.Gateway
}

// descriptors are a sandbox's files that the server has open.
type descriptors struct {
	files     *files.Files
	proc      *os.File            // /proc of PID 1
	shm       *os.File            // /proc/sysvipc/shm of PID 1
	disk      *os.File            // its /tmp, on the file system that bounds its writes
	procFiles map[string]*os.File // files of /proc that are read often; guarded by mu
}

// programs are the processes that PID 1 starts for the server.
type programs struct {
	starting sync.Mutex // held until a command's Status has come
	starts   chan report
	lives    map[int32]*programRecord // of programs, by their PIDs inside; guarded by mu
	begun    atomic.Int32             // number of programs
	exited   atomic.Bool              // the only program has ended, and only PID 1 was alive
}

// lifetime has the conditions and effects of a sandbox's end.
type lifetime struct {
	hooks     Hooks
	notifying sync.WaitGroup // runs serveNotifications
	using     sync.WaitGroup // commands, their watchers, and other users of our descriptors
	closing   bool           // keepOpen fails; guarded by mu
	gone      chan struct{}  // closed when PID 1's end of control is closed: it is dead or dying
	close     sync.Once
}

// Hooks notify the owner of a sandbox of its ends. They must not be nil.
type Hooks struct {
	Ended   func(pid int32) // a program, or PID 1 if pid is 0
	Closing func()          // Close has begun
	Removed func()          // nothing of it is left
}

// noHooks are the hooks of a sandbox without an owner.
var noHooks = Hooks{func(int32) {}, func() {}, func() {}}

// SetHooks sets the hooks. It must be called before Launch.
func (s *Sandbox) SetHooks(h Hooks) { s.hooks = h }

// HasNamespaces reports whether the sandbox has namespaces of its own, instead of the host's or the container's.
func (s *Sandbox) HasNamespaces() bool { return !s.landlockOnly && !s.inContainer }

// Runtime returns the sandbox's interpreter.
func (s *Sandbox) Runtime() runtimes.Runtime { return s.runtime }

// Workspace returns the workspace's directory.
func (s *Sandbox) Workspace() *os.Root { return s.files.Root() }

// HostIndependent reports whether the sandbox shows only the system and its runtime of the host, like a template's
// root.
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

// insideID is the program's user and group ID inside, whatever they are outside.
const insideID = 1000

// notifies reports whether the kernel sends this process the sandbox's chmod and utimensat calls (see package
// notify): not for root's sandboxes, whose user owns nothing on the host.
func (s *Sandbox) notifies() bool { return s.landlockOnly && s.uid == 0 }

// writesHost reports whether a host directory is mounted for writing.
func (s *Sandbox) writesHost() bool {
	return s.host.Write || slices.ContainsFunc(s.mounts, func(m backends.Mount) bool { return m.Write })
}

// overlays reports whether the workspace is an overlay over a host directory.
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

// hostUID returns the sandbox processes' user on the host.
func (s *Sandbox) hostUID() int { return cmp.Or(s.uid, os.Geteuid()) }

// filterKind returns the kind of the sandbox's seccomp filter.
func (s *Sandbox) filterKind() seccomp.Kind {
	writes := s.landlockOnly || s.writesHost()
	return seccomp.Kind{Namespaces: !s.landlockOnly, Affinity: s.cpus == nil, WritesHost: writes, Notifies: s.notifies(),
		InContainer: s.inContainer,
		NoInternet:  s.noInternet()}
}

// noInternet reports whether programs get no IPv4 and IPv6 sockets.
func (s *Sandbox) noInternet() bool { return s.backend.config.NoInternet && len(s.gatewayPorts) == 0 }

// programRecord collects the messages about one program after its status.
type programRecord struct {
	exit   chan launch.Message
	ready  bool            // its status has come: execve is next
	denied bool            // a step before its status has failed, and its start knows
	failed *launch.Message // execve's error; set before exit is sent
}

// report is a message with its text and files.
type report struct {
	launch.Message
	text  []byte
	files []*os.File // attached files
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
