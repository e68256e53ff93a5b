package backends

import (
	"fmt"
	"net"
	"slices"
)

// MaxSockets bounds the sockets inside a sandbox: PID 1 passes all of them to the host in one message.
const MaxSockets = 24

// CheckPorts refuses ports of Spec.Gateway that one sandbox can't all open.
func CheckPorts(spec Spec) error {
	const room = MaxSockets - 2 // for names
	ports := spec.Gateway
	if len(ports) > room {
		return Refuse(fmt.Sprintf("%d different ports lead out of the sandbox, and it can have %d", len(ports), room), "allow fewer ports")
	}
	for i, port := range ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%d is no port", port)
		}
		if port == DNSPort || slices.Contains(ports[:i], port) {
			return Refuse(fmt.Sprintf("port %d is taken inside", port), "leave that port out")
		}
	}
	return nil
}

// Sockets are bound to names inside a sandbox's own network namespace, and held by the host.
type Sockets struct {
	DNS       net.PacketConn // UDP, DNSPort of 127.0.0.1, which the sandbox's resolv.conf names
	DNSStream net.Listener   // TCP, likewise
	Ports     []net.Listener // one for each port of Spec.Gateway; the local address of a connection is the one that the program dialed
}

// DNSPort is reserved in a sandbox in which the host answers DNS: a gateway can't use it.
const DNSPort = 53

// Resolves reports whether the host answers DNS inside.
func (s Spec) Resolves() bool { return s.DNS || len(s.Gateway) > 0 }
