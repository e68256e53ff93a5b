package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// socketBytes is what a TCP socket may hold for each direction, in bytes. The pages of all TCP sockets come out of one
// pool of the host's (net.ipv4.tcp_mem), and when it is empty the host's own connections stand still.
const socketBytes = 128 << 10

// spareSockets bounds buffers of a new network namespace; at is where its /proc is. What TCP makes larger by itself ends
// there, and the filter keeps programs from asking for more.
func spareSockets(p *plan, at string) {
	p.sysctl(at, "net/ipv4/tcp_rmem", fmt.Sprintf("4096 %d %[1]d", socketBytes))
	p.sysctl(at, "net/ipv4/tcp_wmem", fmt.Sprintf("4096 16384 %d", socketBytes))
}

// spareWatches leaves other sandboxes, and an ordinary user's own programs, something of what the kernel gives a
// user in all: without bounds of its own user namespace, one program could take all 128 instances of inotify.
// Kernels without these files count nothing.
func spareWatches(p *plan) {
	p.trySysctl("", "user/max_inotify_instances", "16")
	p.trySysctl("", "user/max_inotify_watches", "8192")
}

// maxSockets is how many of any kind a sandbox may have at once: those count, too, that a program has closed and a gateway has
// not, so that one that opens and closes thousands gets by.
const maxSockets = 4096

// maxUncounted is how many other than TCP's where no cgroup counts what they hold. TCP's have the pool, and lookAtTree.
const maxUncounted = 1024

// tcpPressure is with how many pages in the pool the kernel begins to keep the host's sockets small: the second number. Only the
// host's own network namespace has it, and so it is 0 in a container.
var tcpPressure = sync.OnceValue(func() (pages int) {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_mem")
	fmt.Sscan(string(text), new(int), &pages)
	return pages
})

// sockstat is how many sockets a network namespace has, also where nobody has them open any more, and how full the host's pool is.
type sockstat struct {
	used int
	tcp  int // of these, of TCP
	pool int // pages
}

func parseSockets(text []byte) (n sockstat) {
	for line := range strings.Lines(string(text)) {
		fmt.Sscanf(line, "sockets: used %d", &n.used)
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] == "TCP:" {
			fmt.Sscanf(line, "TCP: inuse %d", &n.tcp)
			n.pool, _ = strconv.Atoi(fields[len(fields)-1])
		}
	}
	return n
}

// tooMany says whether a sandbox has to end for them: while the pool is at half of what is pressure, also one that could
// hold an eighth of that. counted says that a cgroup counts what they hold.
func (n sockstat) tooMany(pressure int, counted bool) bool {
	const least = 16
	eighth := max(least, pressure*os.Getpagesize()/8/(2*socketBytes))
	return n.used > maxSockets || !counted && n.used-n.tcp > maxUncounted || pressure > 0 && n.pool > pressure/2 && n.used > eighth
}

// socketCounts counts the sandbox's sockets.
func (s *sandbox) socketCounts() sockstat { return parseSockets(s.network("sockstat")) }

// network reads what the kernel tells of the sandbox's network namespace. In the profile "landlock" there are no sockets.
func (s *sandbox) network(name string) []byte {
	switch {
	case s.inContainer:
		return s.read("self/net/" + name)
	case s.landlockOnly:
		return nil
	}
	return s.read("1/net/" + name)
}

// lost is as in [backends.Usage].
func (s *sandbox) lost() int64 {
	snmp := s.network("snmp")
	n := count(snmp, "Ip:", "OutNoRoutes")
	if s.gateway.DNS == nil { // or else the gateway answers look-ups
		n += count(snmp, "Udp:", "NoPorts")
	}
	return n
}

// count reads one number of pairs of lines, of names and of numbers: proc_pid_net(5), snmp. There are a hundred of them, and it is
// read twice a cell.
func count(text []byte, group, name string) int64 {
	var names []string
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(group)) {
			continue
		}
		fields := strings.Fields(string(line))
		if i := slices.Index(names, name); i > 0 && i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			return n
		}
		names = fields
	}
	return 0
}
