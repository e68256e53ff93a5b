package process

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// maxListen leaves room for the other descriptors that PID 1 hands over.
const maxListen = launch.MaxFiles - 8

// checkListen refuses listeners that can't be: without a network namespace they would be the host's.
func checkListen(spec backends.Spec, weak bool) error {
	switch {
	case len(spec.Listen) == 0:
		return nil
	case weak:
		return &backends.Refusal{Layer: backends.LayerNet, Reason: "the profile landlock has no network of its own that could lead out", Remedy: "use the profile hardened"}
	case len(spec.Listen) > maxListen:
		return fmt.Errorf("a sandbox can listen on %d ports, and %d are asked for", maxListen, len(spec.Listen))
	}
	for _, port := range spec.Listen {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%d is no port", port)
		}
	}
	return nil
}

// listeners has PID 1 open sockets on the loopback of its network namespace. A socket stays in the
// namespace in which it was made, whoever holds it: so the server can answer inside without being
// there. PID 1 is still root of the namespace, and may take low ports.
func listeners(p *plan, ports []int) []arg {
	var all []arg
	for _, port := range ports {
		name := "127.0.0.1:" + strconv.Itoa(port)
		at := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: uint16(port>>8 | port&0xff<<8), Addr: [4]byte{127, 0, 0, 1}}
		fd := p.get("socket "+name, unix.SYS_SOCKET, val(unix.AF_INET), val(unix.SOCK_STREAM|unix.SOCK_CLOEXEC), val(0))
		p.do("bind "+name, unix.SYS_BIND, fd, value(p, at), val(unsafe.Sizeof(at)))
		p.do("listen "+name, unix.SYS_LISTEN, fd, val(128))
		all = append(all, fd)
	}
	return all
}

// open makes listeners of the sockets, and closes those.
func (s *sandbox) open(sockets []*os.File) error {
	for _, f := range sockets {
		door, err := net.FileListener(f)
		f.Close()
		if err != nil {
			return fmt.Errorf("listen inside: %w", err)
		}
		s.doors = append(s.doors, door)
	}
	return nil
}

// Listeners implements [backends.Sandbox].
func (s *sandbox) Listeners() []net.Listener { return s.doors }
