package container

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// peer is PID 1 of a container as we see it from outside: the end of it is the end of all that runs there,
// and we learn of it much sooner than engines do.
type peer struct {
	fd  *os.File
	pid int
}

// peerOf finds out who connected. It is nil where our own processes can't be told from the container's:
// the kernel gives no number for those of another branch of PID namespaces.
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
	if !isNamespaceInit(int(who.Pid)) || it.waitDead(0) { // what was looked at is what connected
		it.close()
		return nil, errors.New("a program connected in place of its init")
	}
	return it, nil
}

// isNamespaceInit says whether a process is the first of its PID namespace, or in none that is below ours. A program that
// is shown the folder in which our sockets are (a home folder, say) could call on us in place of another
// container's init. Where /proc hides others' processes (hidepid), that can't be seen.
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

// kill ends it at once, where we may. It would end by itself, too, but has nothing to do any more that matters.
func (p *peer) kill() {
	if p != nil {
		_ = unix.PidfdSendSignal(int(p.fd.Fd()), unix.SIGKILL, nil, 0)
	}
}

// receiveConn takes the connection that the init made in the place of the one that it called on. The kernel shows programs
// the name of any socket in their network namespace (/proc/net/unix), and that one has ours.
func receiveConn(conn *net.UnixConn) (*net.UnixConn, error) {
	defer conn.Close()
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("its init sent no connection: %v", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("its init sent %d connections: %v", len(fds), err)
	}
	f := os.NewFile(uintptr(fds[0]), "connection")
	defer f.Close()
	file, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := file.(*net.UnixConn)
	if !ok {
		file.Close()
		return nil, fmt.Errorf("its init sent a connection of kind %T", file)
	}
	return u, nil
}

// memory is how many bytes it holds for itself; 0 where that can't be seen. What it has of our binary is shared with us.
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

// waitDead waits until it is, but no longer than within.
func (p *peer) waitDead(within time.Duration) bool {
	until := time.Now().Add(within)
	for {
		fds := []unix.PollFd{{Fd: int32(p.fd.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(0, time.Until(until)).Milliseconds()))
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

func (p *peer) close() {
	if p != nil {
		p.fd.Close()
	}
}
