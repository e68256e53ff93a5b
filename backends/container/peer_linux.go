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

// peer is PID 1 of a container as seen from outside: its end is the end of everything that runs there, and we learn of
// it much sooner than engines do.
type peer struct {
	fd  *os.File
	pid int
}

// peerOf identifies the process that connected. It is nil where our own processes can't be distinguished from the
// container's: the kernel gives no number for those of another branch of PID namespaces.
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
		return nil, errors.New("who connected has ended, and can't be its init")
	} else if err != nil {
		return nil, nil
	}
	it := &peer{os.NewFile(uintptr(fd), "init"), int(who.Pid)}
	if !isNamespaceInit(int(who.Pid)) || it.waitDead(0) { // the process that was checked is the one that connected
		it.close()
		return nil, errors.New("a program connected in place of its init")
	}
	return it, nil
}

// isNamespaceInit reports whether a process is the first of its PID namespace, or in none below ours. A program that
// has the directory of our sockets mounted (a home directory, say) could connect in place of another container's init.
// Where /proc hides others' processes (hidepid), that can't be seen.
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

// kill ends PID 1 at once, where we may. It would end by itself, too, but nothing that it still does matters.
func (p *peer) kill() {
	if p != nil {
		_ = unix.PidfdSendSignal(int(p.fd.Fd()), unix.SIGKILL, nil, 0)
	}
}

// receiveConn takes the connection that the init sends in place of the accepted one. The kernel shows programs the name
// of any socket in their network namespace (/proc/net/unix), and the accepted one has ours.
func receiveConn(conn *net.UnixConn) (io.ReadWriteCloser, error) {
	defer conn.Close()
	conns, err := call.ReceiveConns(conn, call.LocalConns)
	if err != nil {
		return nil, fmt.Errorf("its init sent no connection: %w", err)
	}
	return call.NewLocal(conns), nil
}

// memory returns the bytes that PID 1 holds for itself; 0 where that can't be seen. It shares our binary's pages with
// us.
func (p *peer) memory() int64 {
	if p == nil {
		return 0
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 && !p.waitDead(0) { // or else the number may be another's
			return kib << 10
		}
	}
	return 0
}

// waitDead waits until PID 1 is dead, but no longer than within.
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
