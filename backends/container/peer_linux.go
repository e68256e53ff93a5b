package container

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/container/call"
)

// peer is PID 1 of a container as seen from outside: its end is the end of everything in the container, and we
// notice it much sooner than engines.
type peer struct {
	fd  *os.File
	pid int
}

// peerOf identifies the process that connected. It returns nil if our own processes can't be distinguished from the
// container's: the kernel reports no PID for a process of another branch of PID namespaces.
func peerOf(conn *net.UnixConn, p *plan) (*peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var who *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || failed != nil {
		return nil, nil
	}
	if !p.UserNS && !p.Rootless && int(who.Uid) != p.user.uid {
		return nil, fmt.Errorf("user %d connected in place of its init, which is user %d", who.Uid, p.user.uid)
	}
	if who.Pid <= 0 {
		return nil, nil
	}
	fd, err := unix.PidfdOpen(int(who.Pid), 0)
	if err == unix.ESRCH {
		return nil, errors.New("the process that connected has ended, so it is not the init")
	} else if err != nil {
		return nil, nil
	}
	it := &peer{os.NewFile(uintptr(fd), "init"), int(who.Pid)}
	if !isNamespaceInit(int(who.Pid)) || it.waitDead(0) { // the checked process is the one that connected
		it.close()
		return nil, errors.New("a program connected in place of its init")
	}
	return it, nil
}

// isNamespaceInit reports whether a process is the first of its PID namespace, or in none below ours. A program
// that has our sockets' directory mounted (in a home directory, say) could connect instead of another container's
// init. If /proc hides others' processes (hidepid), this can't be determined.
func isNamespaceInit(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			numbers := strings.Fields(ids)
			return len(numbers) == 1 || numbers[len(numbers)-1] == "1"
		}
	}
	return true
}

// kill kills PID 1 at once, if we may. It would end by itself, too, but its remaining work does not matter.
func (p *peer) kill() {
	if p != nil {
		_ = unix.PidfdSendSignal(int(p.fd.Fd()), unix.SIGKILL, nil, 0)
	}
}

// receiveConn receives the connection that the init sends to replace the accepted one. The kernel shows programs
// the name of any socket in their network namespace (/proc/net/unix), and the accepted one has ours.
func receiveConn(conn *net.UnixConn) (io.ReadWriteCloser, error) {
	defer conn.Close()
	conns, err := call.ReceiveConns(conn, call.LocalConns)
	if err != nil {
		return nil, fmt.Errorf("its init sent no connection: %w", err)
	}
	return call.NewLocal(conns), nil
}

// memory returns PID 1's private memory in bytes; 0 if that can't be read. It shares our binary's pages with us.
func (p *peer) memory() int64 {
	if p == nil {
		return 0
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 && !p.waitDead(0) { // otherwise the PID may have been reused
			return kib << 10
		}
	}
	return 0
}

// waitDead waits at most within for the death of PID 1.
func (p *peer) waitDead(within time.Duration) bool {
	until := time.Now().Add(within)
	for {
		fds := []unix.PollFd{{Fd: int32(p.fd.Fd()), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(max(0, time.Until(until)).Milliseconds())); err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

func (p *peer) close() {
	if p != nil {
		p.fd.Close()
	}
}
