package process

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// A message has room for the sockets and for the other descriptors that PID 1 hands over.
const _ = uint(launch.MaxFiles - 8 - backends.MaxSockets)

// checkListen refuses sockets that can't be opened: without a network namespace they would be the host's.
func checkListen(spec backends.Spec, landlockOnly bool) error {
	if landlockOnly && spec.Resolves() {
		return &backends.Refusal{Layer: backends.LayerNet, Reason: "the profile landlock has no network of its own that could lead out", Remedy: remedy.Text{remedy.Hardened}}
	}
	return backends.CheckPorts(spec)
}

// inside is a socket to open in the sandbox's network namespace.
type inside struct {
	kind int // SOCK_STREAM or SOCK_DGRAM
	at   netip.AddrPort
}

// insides returns the sockets of a sandbox, in the order in which [backends.OpenSockets] takes them.
func insides(spec backends.Spec) []inside {
	if !spec.Resolves() {
		return nil
	}
	dns := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), backends.DNSPort)
	all := []inside{{unix.SOCK_DGRAM, dns}, {unix.SOCK_STREAM, dns}}
	for _, port := range spec.Gateway {
		all = append(all, inside{unix.SOCK_STREAM, netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port))})
	}
	return all
}

// listeners has PID 1 open the sockets. A socket stays in the namespace in which it was made, whichever process holds it:
// so the server can answer inside without being there. PID 1 is still root of the namespace, and may take low ports.
func listeners(p *plan, sockets []inside) []arg {
	const backlog = 1024 // as many as may ask at one moment; the kernel bounds it by net.core.somaxconn
	var all []arg
	for _, in := range sockets {
		name := in.at.String()
		port := in.at.Port()
		at := unix.RawSockaddrInet4{Family: unix.AF_INET, Port: port>>8 | port&0xff<<8, Addr: in.at.Addr().As4()}
		fd := p.get("socket "+name, unix.SYS_SOCKET, val(unix.AF_INET), val(in.kind|unix.SOCK_CLOEXEC), val(0))
		p.do("bind "+name, unix.SYS_BIND, fd, value(p, at), val(unsafe.Sizeof(at)))
		if in.kind == unix.SOCK_STREAM {
			p.do("listen "+name, unix.SYS_LISTEN, fd, val(backlog))
		}
		all = append(all, fd)
	}
	return all
}

// secondAddress gives the loopback device an address besides 127.0.0.1, which glibc ignores when it tests whether this
// machine has IPv4 at all: with that one alone, getaddrinfo(3) finds no name for programs that set AI_ADDRCONFIG.
func secondAddress(p *plan) {
	configure(p, "second address", "lo:1", unix.SIOCSIFADDR, unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{127, 0, 0, 2}})
}

// Gateway implements [backends.Sandbox].
func (s *Sandbox) Gateway() backends.Sockets { return s.gateway }
