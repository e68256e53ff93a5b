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
	for _, l := range sandbox.Listeners() {
		all = append(all, socket{listener: l})
	}
	g := sandbox.Gateway()
	if g.DNS == nil {
		return all
	}
	all = append(all, socket{packets: g.DNS}, socket{listener: g.DNSStream})
	for _, l := range g.Ports {
		all = append(all, socket{listener: l})
	}
	return all
}

// Listeners implements [backends.Sandbox].
func (s *sandbox) Listeners() []net.Listener { return listeners(s.socks[:len(s.spec.Listen)]) }

// Gateway implements [backends.Sandbox].
func (s *sandbox) Gateway() backends.Sockets {
	all := s.socks[len(s.spec.Listen):]
	if len(all) == 0 {
		return backends.Sockets{}
	}
	return backends.Sockets{DNS: all[0].packets, DNSStream: all[1].listener, Ports: listeners(all[2:])}
}

func listeners(all []socket) (out []net.Listener) {
	for _, s := range all {
		out = append(out, s.listener)
	}
	return out
}

// closeSockets closes all of them.
func (s *sandbox) closeSockets() { closeAll(s.socks) }

// count returns how many sockets a message announces, and the index of the packet socket, -1 for none.
func (b built) count() (n, packets int) {
	if !b.Gateway {
		return b.Listeners, -1
	}
	return b.Listeners + 2 + b.Ports, b.Listeners
}
