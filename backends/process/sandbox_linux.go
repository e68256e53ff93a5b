package process

import (
	"cmp"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
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
	host         backends.Mount    // the host directory that is the workspace, if any
	sockets      []inside          // on its loopback, that lead to us
	gatewayPorts []int             // of spec.Gateway
	trust        []byte            // of spec.Trust
	etc          map[string]string // of spec.Etc
	owned        []owned           // mounts whose owner on the host is another
	hostDir      string            // weak: a directory of our own on the host, with
	dir          string            // the workspace, if that is not the host's,
	tmp          string            // and a directory for temporary files
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

// shared says that there are no namespaces of the sandbox's own: they are the host's or the container's.
func (s *sandbox) shared() bool { return s.landlockOnly || s.inContainer }

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

// notifies says whether the kernel asks us: a user of root's sandboxes owns nothing on the host.
func (s *sandbox) notifies() bool { return s.landlockOnly && s.uid == 0 }

// writesHost says whether a directory of the host is shown for writing.
func (s *sandbox) writesHost() bool {
	return s.host.Write || slices.ContainsFunc(s.mounts, func(m backends.Mount) bool { return m.Write })
}

// hostUID is whom the host's kernel counts the sandbox's processes for.
func (s *sandbox) hostUID() int { return cmp.Or(s.uid, os.Geteuid()) }
