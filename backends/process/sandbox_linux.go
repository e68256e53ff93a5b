package process

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
	"github.com/sandboxmcp/sandboxmcp/backends/process/seccomp"
)

// sandbox is one PID 1 and its descendants.
type sandbox struct {
	backend      *Backend
	id           string
	landlockOnly bool // the profile "landlock": no namespaces, no root directory of its own
	inContainer  bool // inside a container, which has made them
	keep         bool
	require      []string
	limits       backends.Limits // at the start
	mounts       []backends.Mount
	host         backends.Mount    // the host directory that is the workspace, if any
	sockets      []inside          // on its loopback, passed to the server
	gatewayPorts []int             // of spec.Gateway
	trust        []byte            // of spec.Trust
	etc          map[string]string // of spec.Etc
	home         string            // of spec.Home
	guest        string            // the file of this program, if it is shown
	owned        []owned           // mounts with another owner on the host
	hostDir      string            // landlockOnly: its directory on the host, with
	dir          string            // the workspace, unless that is the host's,
	tmp          string            // and a directory for temporary files
	runtime      runtimes.Runtime
	idle         *idleProcess // waits for the first command
	tasks        uint64       // maximum of threads at once
	cpus         *unix.CPUSet // its CPUs, where no cgroup counts, and
	bound        []int        // their numbers
	filter       []byte       // of system calls

	joined []runtimes.Runtime // the parts of runtime, of AnyProgram

	*initHandle
	files *files
	proc  *os.File // /proc of PID 1
	shm   *os.File // /proc/sysvipc/shm of PID 1
	disk  *os.File // its /tmp, on the file system that bounds its writes

	starting  sync.Mutex // held until the Status of one command
	starts    chan report
	mu        sync.Mutex
	procFiles map[string]*os.File // files of /proc that are read often
	lives     map[int32]*life     // of programs, by their numbers inside
	inForce   backends.Limits     // as changed by Limit
	ram       atomic.Int64        // of inForce
	gateway   backends.Sockets    // of spec.Gateway
	begun     atomic.Int32        // number of programs
	exited    atomic.Bool         // the only program has ended, and only PID 1 was alive
	notifying sync.WaitGroup      // runs serveNotifications
	using     sync.WaitGroup      // commands, their watchers, and other users of our descriptors
	closing   bool                // use fails
	gone      chan struct{}       // closed when PID 1's end of control is closed: it is dead or dying
	close     sync.Once
}

// noNamespaces reports that the sandbox has no namespaces of its own: they are the host's or the container's.
func (s *sandbox) noNamespaces() bool { return s.landlockOnly || s.inContainer }

// Files implements [backends.Sandbox].
func (s *sandbox) Files() backends.Files { return s.files }

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

// insideID is the program's user and group number inside, whatever they are outside.
const insideID = 1000

// notifies reports whether the kernel sends this process the sandbox's chmod and utimensat calls, see notify_linux.go: not
// of root's sandboxes, whose user owns nothing on the host.
func (s *sandbox) notifies() bool { return s.landlockOnly && s.uid == 0 }

// writesHost reports whether a directory of the host is mounted for writing.
func (s *sandbox) writesHost() bool {
	return s.host.Write || slices.ContainsFunc(s.mounts, func(m backends.Mount) bool { return m.Write })
}

// hostUID returns the user whose processes the sandbox's are to the host's kernel.
func (s *sandbox) hostUID() int { return cmp.Or(s.uid, os.Geteuid()) }

// filterKind returns the kind of the sandbox's seccomp filter.
func (s *sandbox) filterKind() seccomp.Kind {
	writes := s.landlockOnly || s.writesHost()
	return seccomp.Kind{Namespaces: !s.landlockOnly, Affinity: s.cpus == nil, WritesHost: writes, Notifies: s.notifies(), InContainer: s.inContainer,
		NoInternet: s.noInternet()}
}

// noInternet reports whether programs get no sockets of IPv4 and IPv6.
func (s *sandbox) noInternet() bool { return s.backend.config.NoInternet && len(s.gatewayPorts) == 0 }
