// Package call is how a server and the init of a container talk: the server has a [backends.Sandbox]
// that is far away, and the init has the real one.
//
// They have one connection, a Unix socket that is mounted into the container or the container's
// standard input and output, and no trust in what runs beside the init. It begins with three messages: the init
// greets with facts about where it is, the server says what is to be built, and the init answers whether it was. From
// then on the connection carries streams (hashicorp/yamux): one for each command, and for each of a
// command's streams, each file and each connection.
//
// Over a Unix socket, the sockets that programs connect to are handed to the server as descriptors, and
// it answers inside as if it were there. Elsewhere what comes to them travels over the connection.
package call

import (
	"errors"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// Where the container has our binary, and the socket on which the server waits.
const (
	Home       = "/.sandboxmcp"        // ours
	InitPath   = role.ContainerInit    // the binary; that it is called so makes it take over
	SocketPath = Home + "/conn/socket" // gone when the init has connected
)

// Facts are what an init sees of its container. The server believes them as far as they are about the
// container before any program ran in it.
type Facts struct {
	PID        int               // 1
	Namespaces map[string]string // by the name in /proc/self/ns: "net": "net:[4026531840]"
	UIDMap     string            // /proc/self/uid_map
	UID        int
	Interfaces []string // of the network
	ReadOnly   bool     // the root folder is
	Hostname   string
	CgroupRoot bool   // it sees its own cgroup as the root of all
	Cgroup     string // what counts: "v1: memory pids cpu", "v2: ..."; "" if no limit can be read
	Seccomp    bool   // a filter is in force already
	NoNewPrivs bool
	Caps       uint64           // what is in any of its five sets of capabilities
	Runtime    backends.Runtime // the interpreter of the language it was asked about
}

// ErrLost is that the container went away while it was needed: whoever gets it asks the engine why.
var ErrLost = errors.New("the container has ended")
