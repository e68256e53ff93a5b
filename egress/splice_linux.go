package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The events to wait for.
const (
	readable = unix.POLLIN | unix.POLLRDHUP
	hungUp   = unix.POLLRDHUP // the other side closed, or closed its sending half
)

// wait waits for one of events, an error or a hang-up. It reads no bytes and takes no memory, and ends with the
// connection's read deadline.
func wait(conn net.Conn, events int16) error {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(p[:], 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// isReset waits, after the end of a connection's bytes, and reports whether the connection is reset.
func isReset(conn net.Conn) bool {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	return raw.Read(func(fd uintptr) bool {
		number, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		return err != nil || number != 0
	}) == nil
}

// descriptors returns this process's limit of descriptors.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30))
}

const (
	pipeSize     = 1 << 20 // bytes; what /proc/sys/fs/pipe-max-size allows everybody
	maxIdlePipes = 16      // for the next that need one
	maxPipes     = 64      // of one sandbox: whoever reads slowly keeps one full, in memory that is nobody's but the server's
)

// pipe is the pipe for splice(2) between two sockets.
type pipe struct{ r, w int }

func (p *pipe) close() {
	_ = unix.Close(p.r)
	_ = unix.Close(p.w)
}

// pipes is a pool of empty pipes.
type pipes struct {
	budget *Budget // for those in use; the few that are kept are not worth counting

	mu   sync.Mutex
	idle []*pipe
	used int
	over bool
}

var errPipes = errors.New("as many pipes as there may be are in use")

func (s *pipes) take() (*pipe, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= maxPipes || !s.budget.take(2, 0) {
		return nil, errPipes
	}
	if n := len(s.idle); n > 0 {
		p := s.idle[n-1]
		s.idle = s.idle[:n-1]
		s.used++
		return p, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		s.budget.give(2)
		return nil, os.NewSyscallError("pipe2", err)
	}
	s.used++
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) // or it stays at 64 KiB
	return &pipe{r: fds[0], w: fds[1]}, nil
}

// give takes back a pipe, and keeps it for others only if it is empty.
func (s *pipes) give(p *pipe, empty bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.budget.give(2)
	if !empty || s.over || len(s.idle) >= maxIdlePipes {
		p.close()
		return
	}
	s.idle = append(s.idle, p)
}

func (s *pipes) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.idle {
		p.close()
	}
	s.idle, s.over = nil, true
}

// move passes bytes on until from ends. While it waits it has no buffer and no pipe; few bytes go through a buffer, and
// many by splice(2).
func (g *Gateway) move(to, from net.Conn, moved func(int)) error {
	in, ok1 := from.(*net.TCPConn)
	out, ok2 := to.(*net.TCPConn)
	if !ok1 || !ok2 {
		return g.copied(to, from, moved)
	}
	r, err := in.SyscallConn()
	if err != nil {
		return err
	}
	w, err := out.SyscallConn()
	if err != nil {
		return err
	}
	m := &mover{g: g, to: out, r: r, w: w, moved: moved}
	m.onRead, m.onDrain, m.onPump = m.read, m.drain, m.pump
	defer m.drop()
	for err == nil {
		if m.bulk {
			err = m.splice()
		} else {
			err = m.copy()
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// mover passes bytes in one direction.
type mover struct {
	g     *Gateway
	to    *net.TCPConn
	r, w  syscall.RawConn
	moved func(int)

	bulk   bool // they come faster than they are taken
	buffer *[bufferSize]byte
	pipe   *pipe
	inPipe int

	n                       int // of the last system call
	err                     error
	onRead, onDrain, onPump func(fd uintptr) bool // made once, and not for each call
}

// copy passes on the bytes that are there, up to a bufferful.
func (m *mover) copy() error {
	if err := m.r.Read(m.onRead); err != nil {
		return err
	}
	if m.err != nil {
		return os.NewSyscallError("read", m.err)
	}
	if m.n == 0 {
		return io.EOF
	}
	m.bulk = m.n == bufferSize
	n, err := m.to.Write(m.buffer[:m.n])
	m.putBuffer()
	m.moved(n)
	return err
}

func (m *mover) read(fd uintptr) bool {
	if m.buffer == nil {
		m.buffer = m.g.buffers.Get().(*[bufferSize]byte)
	}
	m.n, m.err = again(func() (int, error) { return unix.Read(int(fd), m.buffer[:]) })
	if m.err == unix.EAGAIN {
		m.putBuffer()
		return false
	}
	return true
}

// splice passes on the bytes that are there, up to a pipeful.
func (m *mover) splice() error {
	if err := m.r.Read(m.onDrain); err != nil {
		return err
	}
	if m.pipe == nil { // no descriptors
		m.bulk = false
		return nil
	}
	if m.err != nil {
		return os.NewSyscallError("splice", m.err)
	}
	if m.n == 0 {
		return io.EOF
	}
	m.inPipe = m.n
	m.bulk = m.n >= bufferSize
	for m.inPipe > 0 {
		if err := m.w.Write(m.onPump); err != nil {
			return err
		}
		if m.err != nil {
			return os.NewSyscallError("splice", m.err)
		}
		m.inPipe -= m.n
		m.moved(m.n)
	}
	if !m.bulk {
		m.putPipe()
	}
	return nil
}

func (m *mover) drain(fd uintptr) bool {
	if m.pipe == nil {
		if m.pipe, m.err = m.g.pipes.take(); m.err != nil {
			return true
		}
	}
	m.n, m.err = again(func() (int, error) {
		n, err := unix.Splice(int(fd), nil, m.pipe.w, nil, pipeSize, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return int(n), err
	})
	if m.err == unix.EAGAIN { // the pipe is empty, so it is the socket that has nothing
		m.putPipe()
		return false
	}
	return true
}

func (m *mover) pump(fd uintptr) bool {
	m.n, m.err = again(func() (int, error) {
		n, err := unix.Splice(m.pipe.r, nil, int(fd), nil, m.inPipe, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		return int(n), err
	})
	return m.err != unix.EAGAIN
}

func again(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func (m *mover) putBuffer() {
	m.g.buffers.Put(m.buffer)
	m.buffer = nil
}

func (m *mover) putPipe() {
	m.g.pipes.give(m.pipe, m.inPipe == 0)
	m.pipe = nil
}

// drop gives back the buffer and the pipe.
func (m *mover) drop() {
	if m.buffer != nil {
		m.putBuffer()
	}
	if m.pipe != nil {
		m.putPipe()
	}
}
