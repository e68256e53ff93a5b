package process

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
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

// sysctl sets what must be there.
func (p *plan) sysctl(at, name, value string) { p.write(at+"/proc/sys/"+name, value, 0, 0) }

func (p *plan) trySysctl(at, name, value string) {
	fd := slot(p.free)
	p.add("open "+name, launch.Step{Store: int32(fd.v), Want: launch.AnyResult, Errno: launch.AnyErrno},
		unix.SYS_OPENAT, []arg{cwd, p.str(at + "/proc/sys/" + name), val(unix.O_WRONLY | unix.O_CLOEXEC), val(0)})
	p.try("write "+name, unix.SYS_WRITE, fd, p.str(value), val(len(value)))
	p.try("close "+name, unix.SYS_CLOSE, fd)
}

// manySockets is how many sockets of any kind a sandbox may have at once: with all of them full of TCP's data, it holds
// half of what puts the host's pool under pressure, or less.
var manySockets = sync.OnceValue(func() int {
	const least, most = 128, 1024
	var pages int
	text, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_mem")
	fmt.Sscan(string(text), &pages)
	return min(max(least, pages*os.Getpagesize()/2/(2*socketBytes)), most)
})

// socketsUsed counts those of the sandbox's network namespace, also where nobody has them open any more. In the profile
// "landlock" there are none.
func (s *sandbox) socketsUsed() (n int) {
	switch {
	case s.boxed:
		fmt.Sscanf(string(s.read("self/net/sockstat")), "sockets: used %d", &n)
	case !s.weak:
		fmt.Sscanf(string(s.read("1/net/sockstat")), "sockets: used %d", &n)
	}
	return n
}
