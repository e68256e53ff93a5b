package process

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
)

// messageSize is the size of every message to the server; text follows a status.
const messageSize = int64(unsafe.Sizeof(launch.Message{}))

// messageBytes returns the memory of m, for sending and receiving.
func messageBytes(m *launch.Message) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), messageSize)
}

// sendReady sends launch.Ready with the descriptors in the given slots.
func (p *plan) sendReady(fds ...arg) {
	p.sendMessage("ready", value(p, launch.Message{Kind: launch.Ready}), messageSize, fds...)
}

// sendMessage sends a message of size bytes at m, with the descriptors in the given slots.
func (p *plan) sendMessage(what string, m arg, size int64, fds ...arg) {
	if len(fds) == 0 {
		p.want(size, "say "+what, unix.SYS_SENDTO, slot(launch.SlotControl), m, val(size), val(unix.MSG_NOSIGNAL), val(0), val(0))
		return
	}
	iov := value(p, [2]uint64{0, uint64(size)})
	p.addFixup(iov.v, m.v)
	control := value(p, unix.Cmsghdr{Len: uint64(unix.CmsgLen(4 * len(fds))), Level: unix.SOL_SOCKET, Type: unix.SCM_RIGHTS})
	room := p.bytes(make([]byte, unix.CmsgSpace(4*len(fds))-unix.SizeofCmsghdr))
	for i, fd := range fds {
		p.poke(arg{v: room.v + 4*uint64(i)}, fd)
	}
	// struct msghdr: name, namelen, iov, iovlen, control, controllen, flags
	h := value(p, [7]uint64{3: 1, 5: uint64(unix.CmsgSpace(4 * len(fds)))})
	p.addFixup(h.v+16, iov.v)
	p.addFixup(h.v+32, control.v)
	p.want(size, "say "+what, unix.SYS_SENDMSG, slot(launch.SlotControl), h, val(unix.MSG_NOSIGNAL))
}

// In a status message, the launch.Message is followed by a link of linkSize bytes for each of namespaceLinks, and
// the content of /proc/self/status.
const (
	linkSize   = 64
	statusSize = 4096
)

// namespaceLinks are the links that a status message reads from /proc/self/ns, in this order.
var namespaceLinks = []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"}

// sendStatus sends a status message: the kernel's view of the process that is about to become the program. If the plan
// has made a terminal, the message carries its master.
func (p *plan) sendStatus(status arg, fds ...arg) {
	size := int(messageSize) + linkSize*len(namespaceLinks) + statusSize
	buf := p.zeros(size)
	m := launch.Message{Kind: launch.Status}
	p.poke(arg{v: buf.v + uint64(unsafe.Offsetof(m.Pid))}, p.get("getpid", unix.SYS_GETPID))
	copy(p.data[buf.v:], unsafe.Slice((*byte)(unsafe.Pointer(&m)), messageSize))
	at := buf.v + uint64(messageSize)
	for _, name := range namespaceLinks {
		p.try("readlink ns/"+name, unix.SYS_READLINKAT, cwd, p.str("/proc/self/ns/", name), arg{launch.Address, at}, val(linkSize-1))
		at += linkSize
	}
	p.want(launch.Some, "read status", unix.SYS_READ, status, arg{launch.Address, at}, val(statusSize))
	p.sendMessage("status", buf, int64(size), fds...)
}

// socketPair returns a connection that can carry descriptors, and its other end. SOCK_SEQPACKET preserves message
// boundaries.
func socketPair(kind int) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// receive reads one message, and returns its length and descriptors.
func receive(conn *net.UnixConn, buf []byte) (int, []*os.File, error) {
	oob := make([]byte, unix.CmsgSpace(4*launch.MaxFiles))
	n, oobn, flags, _, err := conn.ReadMsgUnix(buf, oob)
	if errors.Is(err, unix.ECONNRESET) { // the peer ended with an unread message of ours: its earlier messages follow that error
		n, oobn, flags, _, err = conn.ReadMsgUnix(buf, oob)
	}
	if err != nil {
		return 0, nil, err
	}
	if n == 0 {
		return 0, nil, io.EOF
	}
	if flags&unix.MSG_CTRUNC != 0 { // oob has room for the maximum number of descriptors
		err = fmt.Errorf("receive descriptors: %w", unix.EMFILE)
	}
	if oobn == 0 {
		return n, nil, err
	}
	messages, parsed := unix.ParseSocketControlMessage(oob[:oobn])
	if parsed != nil {
		return 0, nil, fmt.Errorf("parse control message: %w", parsed)
	}
	if len(messages) != 1 {
		return 0, nil, fmt.Errorf("got %d control messages, want 1", len(messages))
	}
	fds, parsed := unix.ParseUnixRights(&messages[0])
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "received")
	}
	return n, files, cmp.Or(err, parsed)
}

// namespaceError is a failure to make or set up namespaces: the host does not permit them.
type namespaceError struct{ err error }

func (e *namespaceError) Error() string { return e.err.Error() }

func (e *namespaceError) Unwrap() error { return e.err }

// forkError is a failed fork: the template works, and the host denied the request.
type forkError struct{ err error }

func (e *forkError) Error() string { return e.err.Error() }

func (e *forkError) Unwrap() error { return e.err }

// isForkError reports whether the template that returned err remains usable.
func isForkError(err error) bool { return errors.As(err, new(*forkError)) }
