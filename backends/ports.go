package backends

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
)

// MaxSockets bounds the sockets inside a sandbox: PID 1 passes all of them to the host in one message.
const MaxSockets = 24

// CheckPorts refuses ports of Spec.Gateway that one sandbox can't all open.
func CheckPorts(spec Spec) error {
	const room = MaxSockets - 2 // without those for DNS
	ports := spec.Gateway
	if len(ports) > room {
		return Refuse(fmt.Sprintf("%d different gateway ports, the maximum is %d", len(ports), room), "allow fewer ports")
	}
	for i, port := range ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%d is not a port", port)
		}
		if port == DNSPort || slices.Contains(ports[:i], port) {
			return Refuse(fmt.Sprintf("port %d is reserved inside", port), "leave that port out")
		}
	}
	return nil
}

// Sockets are bound to addresses inside a sandbox's own network namespace, and held by the host.
type Sockets struct {
	DNS       net.PacketConn // UDP, DNSPort of 127.0.0.1, which is in the sandbox's resolv.conf
	DNSStream net.Listener   // the same over TCP
	Ports     []net.Listener // one per port of Spec.Gateway; a connection's local address is the one that the program dialed
}

// DNSPort is reserved in a sandbox in which the host answers DNS: a gateway can't use it.
const DNSPort = 53

// Resolves reports whether the host answers DNS inside.
func (s Spec) Resolves() bool { return s.DNS || len(s.Gateway) > 0 }

// Listeners returns the sockets that accept connections, DNS first.
func (s Sockets) Listeners() []net.Listener {
	if s.DNSStream == nil {
		return s.Ports
	}
	return append([]net.Listener{s.DNSStream}, s.Ports...)
}

// Close closes all sockets.
func (s Sockets) Close() error {
	if s.DNS != nil {
		s.DNS.Close()
	}
	CloseAll(s.Listeners())
	return nil
}

// Files returns duplicates of the sockets' descriptors, in the order of [OpenSockets]. The caller closes them, also
// after an error.
func (s Sockets) Files() (all []*os.File, err error) {
	add := func(socket any) {
		from, ok := socket.(interface{ File() (*os.File, error) })
		if !ok {
			err = errors.New("a socket without a descriptor")
			return
		}
		f, failed := from.File()
		if err = cmp.Or(err, failed); failed == nil {
			all = append(all, f)
		}
	}
	if s.DNS != nil {
		add(s.DNS)
	}
	for _, l := range s.Listeners() {
		add(l)
	}
	return all, err
}

// OpenSockets opens sockets from their descriptors: DNS, DNSStream, and then the ports. It closes the files.
// Sockets of another kind are an error: a program may control the process that sent them.
func OpenSockets(files []*os.File) (s Sockets, err error) {
	defer CloseAll(files)
	for i, f := range files {
		var l net.Listener
		ok := false
		if i == 0 {
			s.DNS, err = net.FilePacketConn(f) // a duplicate
			_, ok = s.DNS.(*net.UDPConn)
		} else if l, err = net.FileListener(f); err == nil {
			_, ok = l.(*net.TCPListener)
			if i == 1 {
				s.DNSStream = l
			} else {
				s.Ports = append(s.Ports, l)
			}
		}
		if err == nil && !ok {
			err = errors.New("it is not an internet socket")
		}
		if err != nil {
			s.Close()
			return Sockets{}, fmt.Errorf("take over a socket inside: %w", err)
		}
	}
	return s, nil
}

// CloseAll closes all elements of a list.
func CloseAll[T io.Closer](all []T) {
	for _, c := range all {
		c.Close()
	}
}
