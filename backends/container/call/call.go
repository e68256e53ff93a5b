// Package call connects a server with the init of a container: the server holds a [backends.Sandbox] that
// represents a real one in the init.
//
// Both use one connection, a Unix socket mounted into the container or the container's standard input and output.
// The server trusts no message, since a program may have taken over the init. The init sends a greeting with facts
// about its surroundings. Then HTTP/2 follows with the server as client: the init builds the sandbox at its
// request, and each command, each stream of a command, each file and each direction of a connection is one request.
// Content that must be complete ends with a trailer.
//
// Over Unix sockets ([Local]), the init passes its sockets to the server as descriptors, and the server accepts and
// answers inside the container's network namespace. Otherwise the server requests the connections, whose data
// travels in requests.
package call

import (
	"errors"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// Paths of our binary and of the server's socket in the container.
const (
	Home       = "/.sandboxmcp"        // our directory
	InitPath   = role.ContainerInit    // the binary; under this name its init function takes over
	SocketPath = Home + "/conn/socket" // removed once the init has connected
)

// Facts describe the container as seen by its init. The server trusts them only for the time before any program ran
// in the container.
type Facts struct {
	PID        int               // 1
	Namespaces map[string]string // by the name in /proc/self/ns: "net": "net:[4026531840]"
	UIDMap     string            // /proc/self/uid_map
	UID        int
	Interfaces []string // of the network
	ReadOnly   bool     // the root directory is read-only
	Hostname   string
	CgroupRoot bool   // the init's cgroup is the visible root
	Cgroup     string // the limits that are enforced: "v1: memory pids cpu", "v2: ..."; "" if none can be read
	Seccomp    bool   // a filter is already installed
	NoNewPrivs bool
	Caps       uint64           // union of the five capability sets
	Runtime    backends.Runtime // the interpreter of the container's language
	// Probed are the addresses that the init tried to reach before any program ran; Answered are those that replied. If
	// one replied, programs get no internet sockets unless there is a gateway.
	Probed, Answered []string
}

// ErrLost reports that the container ended during a call. The engine knows the reason.
var ErrLost = errors.New("the container has ended")
