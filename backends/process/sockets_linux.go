package process

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// socketBytes bounds the buffer of a TCP socket in each direction. The pages of all TCP sockets come from one pool
// of the host (net.ipv4.tcp_mem), and if it is empty the host's own connections stall.
const socketBytes = 128 << 10

// boundSocketBuffers bounds the buffers in a new network namespace; at is the prefix of its /proc. TCP's automatic
// growth stops there, and the filter keeps programs from requesting more. A closed connection leaves kernel memory
// for a minute, which no cgroup counts where the kernel answers for both ends: beyond the bound, nothing is left.
func boundSocketBuffers(p *plan, at string) {
	p.sysctl(at, "net/ipv4/tcp_rmem", fmt.Sprintf("4096 %d %[1]d", socketBytes))
	p.sysctl(at, "net/ipv4/tcp_wmem", fmt.Sprintf("4096 16384 %d", socketBytes))
	p.sysctl(at, "net/ipv4/tcp_max_tw_buckets", "8192")
}

// boundWatches bounds inotify in the sandbox's user namespace, to protect other sandboxes and an ordinary user's
// own programs: otherwise one program could take all 128 instances of a user. Kernels without these files don't
// count.
func boundWatches(p *plan) {
	p.trySysctl("", "user/max_inotify_instances", "16")
	p.trySysctl("", "user/max_inotify_watches", "8192")
}

// maxSockets bounds the sockets of any kind in a sandbox. It includes sockets that a program has closed and a
// gateway has not, so a program may open and close thousands.
const maxSockets = 4096

// maxUncounted bounds the non-TCP sockets where no cgroup counts their memory. The pool and pollProcesses bound
// TCP's.
const maxUncounted = 1024

// tcpPressure is the number of pages in the pool at which the kernel begins to shrink the host's sockets: the
// second number of tcp_mem. Only the host's own network namespace has it, so it is 0 in a container.
var tcpPressure = sync.OnceValue(func() (pages int) {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_mem")
	fmt.Sscan(string(text), new(int), &pages)
	return pages
})

// sockstat counts the sockets of a network namespace, including closed ones, and the pages of the host's pool.
type sockstat struct {
	used int
	tcp  int // TCP sockets among these
	pool int // pages
}

// parseSockets reads /proc/net/sockstat.
func parseSockets(text []byte) (n sockstat) {
	for line := range strings.Lines(string(text)) {
		switch fields := strings.Fields(line); {
		case strings.HasPrefix(line, "sockets: used ") && len(fields) > 2:
			n.used, _ = strconv.Atoi(fields[2])
		case strings.HasPrefix(line, "TCP: inuse ") && len(fields) > 2:
			n.tcp, _ = strconv.Atoi(fields[2])
			n.pool, _ = strconv.Atoi(fields[len(fields)-1])
		}
	}
	return n
}

// tooMany reports whether a sandbox must end because of its sockets: while the pool is at half of the pressure
// threshold, also a sandbox that could hold an eighth of that. counted means that a cgroup counts the sockets'
// memory.
func (n sockstat) tooMany(pressure int, counted bool) bool {
	const least = 16
	eighth := max(least, pressure*os.Getpagesize()/8/(2*socketBytes))
	return n.used > maxSockets || !counted && n.used-n.tcp > maxUncounted || pressure > 0 && n.pool > pressure/2 && n.used > eighth
}

// readNet reads a file of the sandbox's network namespace in /proc/net. The profile "landlock" has no sockets.
func (s *Sandbox) readNet(name string) []byte {
	switch {
	case s.inContainer:
		return s.readProc("self/net/" + name)
	case s.landlockOnly:
		return nil
	}
	if s.keep {
		return s.readOpen("1/net/" + name)
	}
	return s.readProc("1/net/" + name)
}

// readOpen reads a file of /proc that the kernel generates in one piece, and keeps it open: finding it by its path
// takes longer than reading it.
func (s *Sandbox) readOpen(name string) []byte {
	s.mu.Lock()
	f := s.procFiles[name]
	if f == nil {
		if fd, err := unix.Open(s.procName(name), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			f = os.NewFile(uintptr(fd), name)
			s.procFiles[name] = f
		}
	}
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	text := make([]byte, 4096)
	n, _ := unix.Pread(int(f.Fd()), text, 0)
	return text[:max(n, 0)]
}

// lostPackets returns LostPackets of [backends.Usage].
func (s *Sandbox) lostPackets() int64 {
	snmp := s.readNet("snmp")
	n := readCounter(snmp, "Ip:", "OutNoRoutes")
	if s.gateway.DNS == nil { // otherwise the gateway answers look-ups
		n += readCounter(snmp, "Udp:", "NoPorts")
	}
	return n
}

// readCounter reads one number of a pair of lines, names and numbers: proc_pid_net(5), snmp. There are a hundred of
// them, and it is read twice per cell.
func readCounter(text []byte, group, name string) int64 {
	at := -1
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(group)) {
			continue
		}
		i := 0
		for field := range bytes.FieldsSeq(line) {
			if i == at {
				n, _ := strconv.ParseInt(string(field), 10, 64)
				return n
			}
			if at < 0 && string(field) == name {
				at = i
				break
			}
			i++
		}
	}
	return 0
}

// A message has room for the sockets and for the other descriptors that PID 1 sends.
const _ = uint(launch.MaxFiles - 8 - backends.MaxSockets)

// checkListen refuses sockets that can't be opened: without a network namespace they would be the host's.
func checkListen(spec backends.Spec, landlockOnly bool) error {
	if landlockOnly && spec.Resolves() {
		return &backends.Refusal{Layer: backends.LayerNet, Reason: "the profile landlock has no network namespace for egress",
			Remedy: remedy.Text{remedy.Hardened}}
	}
	return backends.CheckPorts(spec)
}

// socketsOf returns the sockets of a sandbox, in the order of [backends.OpenSockets].
func socketsOf(spec backends.Spec) []insideSocket {
	if !spec.Resolves() {
		return nil
	}
	dns := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), backends.DNSPort)
	all := []insideSocket{{unix.SOCK_DGRAM, dns}, {unix.SOCK_STREAM, dns}}
	for _, port := range spec.Gateway {
		all = append(all, insideSocket{unix.SOCK_STREAM, netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port))})
	}
	return all
}

// openSockets makes PID 1 open the sockets. A socket stays in the namespace in which it was made, whichever process
// holds it: so the server can answer inside without entering it. PID 1 is still root of the namespace, and may use
// low ports.
func openSockets(p *plan, sockets []insideSocket) []arg {
	const backlog = 1024 // enough for simultaneous requests; the kernel bounds it by net.core.somaxconn
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

// secondAddress gives the loopback device a second address, because glibc ignores 127.0.0.1 when it tests whether
// this machine has IPv4: with that one alone, getaddrinfo(3) finds no name for programs that set AI_ADDRCONFIG.
func secondAddress(p *plan) {
	configure(p, "second address", "lo:1", unix.SIOCSIFADDR, unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: [4]byte{127, 0, 0, 2}})
}

// Gateway implements [backends.Sandbox].
func (s *Sandbox) Gateway() backends.Sockets { return s.gateway }
