// Package call connects a server with the init of a container: the server holds a [backends.Sandbox] whose real one
// runs in the init.
//
// Both share one connection, a Unix socket mounted into the container or the container's standard input and output, and
// the server trusts nothing that arrives: a program may have taken over the init. The init begins with a greeting,
// which has facts about its surroundings. All else is HTTP/2 with the server as its client: the init builds the sandbox
// at its request, and each command, each stream of a command, each file and each direction of a connection is one
// request. Content that must be complete ends with a trailer.
//
// Over Unix sockets ([Local]), the init hands its sockets to the server as descriptors, and the server accepts and
// answers inside the container's network namespace. Elsewhere the server requests their connections, which travel as
// requests.
package call

import (
	"errors"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// Paths of our binary and of the server's socket in the container.
const (
	Home       = "/.sandboxmcp"        // ours
	InitPath   = role.ContainerInit    // the binary; its init function takes over under this name
	SocketPath = Home + "/conn/socket" // removed once the init has connected
)

// Facts describe the container as its init sees it. The server trusts them only about the time before any program ran
// in the container.
type Facts struct {
	PID        int               // 1
	Namespaces map[string]string // by the name in /proc/self/ns: "net": "net:[4026531840]"
	UIDMap     string            // /proc/self/uid_map
	UID        int
	Interfaces []string // of the network
	ReadOnly   bool     // the root directory is
	Hostname   string
	CgroupRoot bool   // its own cgroup is the visible root
	Cgroup     string // the limits in force: "v1: memory pids cpu", "v2: ..."; "" if no limit can be read
	Seccomp    bool   // a filter is in force already
	NoNewPrivs bool
	Caps       uint64           // the union of its five sets of capabilities
	Runtime    backends.Runtime // the interpreter of the container's language
	// Probed are the addresses that the init tried to reach before any program ran; Answered are those that replied. If
	// one replied, programs get no internet sockets unless there is a gateway.
	Probed, Answered []string
}

// ErrLost reports that the container ended during a call. The engine knows the reason.
var ErrLost = errors.New("the container has ended")
