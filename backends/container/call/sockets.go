package call

import (
	"io"
	"net"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// socket is one of a sandbox's sockets: a listener or a packet connection.
type socket struct {
	listener net.Listener
	packets  net.PacketConn
}

// either returns the one that it is.
func (s socket) either() io.Closer {
	if s.packets != nil {
		return s.packets
	}
	return s.listener
}

func closeAll(all []socket) {
	for _, s := range all {
		s.either().Close()
	}
}

// sockets lists a sandbox's sockets in the order in which both sides count them.
func sockets(sandbox backends.Sandbox) (all []socket) {
	g := sandbox.Gateway()
	if g.DNS == nil {
		return nil
	}
	all = append(all, socket{packets: g.DNS}, socket{listener: g.DNSStream})
	for _, l := range g.Ports {
		all = append(all, socket{listener: l})
	}
	return all
}

// Gateway implements [backends.Sandbox].
func (s *sandbox) Gateway() backends.Sockets {
	if len(s.socks) == 0 {
		return backends.Sockets{}
	}
	g := backends.Sockets{DNS: s.socks[0].packets, DNSStream: s.socks[1].listener}
	for _, port := range s.socks[2:] {
		g.Ports = append(g.Ports, port.listener)
	}
	return g
}

// closeSockets closes all of them.
func (s *sandbox) closeSockets() { closeAll(s.socks) }
