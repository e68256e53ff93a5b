package process

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// pipes connect a program's descriptors 0, 1 and 2 to the caller's streams.
type pipes struct {
	theirs   [3]*os.File
	ours     [3]*os.File
	copies   sync.WaitGroup
	terminal *backends.Terminal // replaces the pipes; the program's process creates it
	closed   chan struct{}      // closed by close if there is a terminal
}

// newPipes makes the pipes. Without input it makes a pipe, too: an idle process does not know its later input.
func (s *Sandbox) newPipes() (*pipes, error) {
	p := &pipes{}
	var err error
	for i := range p.ours {
		if err == nil && i == 0 {
			p.theirs[i], p.ours[i], err = Pipe(1)
		} else if err == nil {
			p.ours[i], p.theirs[i], err = Pipe(0)
		}
		// A program may reopen /dev/stdout, and a pipe is a file with an owner.
		if err == nil && s.uid != 0 {
			err = p.theirs[i].Chown(s.uid, s.uid)
		}
	}
	if err != nil {
		p.closeProgramEnds()
		p.close()
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	return p, nil
}

// attach connects the server's ends, or a terminal's master, to the caller's streams.
func (p *pipes) attach(streams backends.Streams, master *os.File) {
	if master != nil {
		p.attachTerminal(master, streams)
		return
	}
	if streams.Stdin == nil {
		p.ours[0].Close()
	} else {
		go func(w *os.File) {
			io.Copy(w, streams.Stdin)
			w.Close()
		}(p.ours[0])
	}
	for i, to := range []io.Writer{streams.Stdout, streams.Stderr} {
		p.copy(to, p.ours[i+1])
	}
}

// copy copies the program's output to the caller, and discards the rest after the caller's first error.
func (p *pipes) copy(to io.Writer, from *os.File) {
	p.copies.Go(func() {
		to = cmp.Or(to, io.Discard)
		buf := copyBuffers.Get().(*[32 << 10]byte)
		defer copyBuffers.Put(buf)
		// A file would allocate a buffer of its own.
		_, err := io.CopyBuffer(to, struct{ io.Reader }{from}, buf[:])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = copyRemaining(to, from)
		}
		if err != nil {
			io.Copy(io.Discard, from)
		}
	})
}

// copyRemaining copies the bytes left in a pipe after its deadline: the program wrote them in time, and the caller
// took earlier output slowly, as on a busy machine.
func copyRemaining(to io.Writer, from *os.File) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	left := 0
	if e := raw.Control(func(fd uintptr) { left, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); e != nil || err != nil {
		return errors.Join(e, err)
	}
	if err := from.SetReadDeadline(time.Time{}); err != nil { // nobody else reads, so this does not wait
		return err
	}
	_, err = io.CopyN(to, from, int64(left))
	return errors.Join(err, from.SetReadDeadline(time.Unix(1, 0)))
}

// closeProgramEnds closes the ends that the program has inherited.
func (p *pipes) closeProgramEnds() {
	for _, f := range p.theirs {
		if f != nil {
			f.Close()
		}
	}
}

// drain waits until all output has arrived. Other holders of the pipes get a short time: in a session, processes
// that the command left running; otherwise, a host process that received the program's descriptors through a socket
// in a shared directory.
func (p *pipes) drain(keep bool) {
	timeout := 2 * time.Second
	if keep {
		timeout = 100 * time.Millisecond
	}
	for _, f := range p.ours[1:] {
		if f != nil {
			f.SetReadDeadline(time.Now().Add(timeout))
		}
	}
	p.copies.Wait()
}

// close closes the server's ends, and returns when all copying of output has ended.
func (p *pipes) close() {
	if p.closed != nil {
		close(p.closed)
	}
	for _, f := range p.ours {
		if f != nil {
			f.Close()
		}
	}
	p.copies.Wait()
}

// channel is the server's end of a command's private stream. It notifies the watcher of input.
type channel struct {
	net.Conn
	poke func()
}

// Write implements io.Writer.
func (c channel) Write(b []byte) (int, error) {
	c.poke()
	return c.Conn.Write(b)
}

// TryWrite writes as many bytes as fit without blocking, and returns their number.
func (c channel) TryWrite(b []byte) (n int) {
	c.poke()
	if raw, err := c.Conn.(syscall.Conn).SyscallConn(); err == nil {
		raw.Write(func(fd uintptr) bool { n, _ = unix.Write(int(fd), b); return true })
	}
	return max(n, 0)
}

// ConnectChannel makes a private stream and passes the server's end to open. It returns the command's end, nil if
// open is nil; closing nil is harmless.
func ConnectChannel(open func(io.ReadWriteCloser), poke func()) (*os.File, error) {
	if open == nil {
		return nil, nil
	}
	conn, theirs, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, fmt.Errorf("make the private channel: %w", err)
	}
	open(channel{conn, poke})
	return theirs, nil
}

// openTerminal makes a terminal in the sandbox's devpts. The status message carries its master, which the program
// does not inherit: pty(7).
func (p *plan) openTerminal(size backends.Size) (master, slave arg) {
	// Our reads and writes must end at deadlines.
	master = p.get("open /dev/ptmx", unix.SYS_OPENAT, cwd, p.str("/dev/ptmx"), val(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK),
		val(0))
	p.do("TIOCSPTLCK", unix.SYS_IOCTL, master, val(unix.TIOCSPTLCK), value(p, int32(0)))
	slave = p.get("TIOCGPTPEER", unix.SYS_IOCTL, master, val(unix.TIOCGPTPEER), val(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
	p.do("TIOCSWINSZ", unix.SYS_IOCTL, slave, val(unix.TIOCSWINSZ), value(p, winsize(size)))
	return master, slave
}

// winsize returns the argument of TIOCSWINSZ: ioctl_tty(2).
func winsize(size backends.Size) unix.Winsize {
	return unix.Winsize{Col: size.Columns, Row: size.Rows}
}

// attachTerminal connects a terminal's master to the caller's streams.
func (p *pipes) attachTerminal(master *os.File, streams backends.Streams) {
	p.copy(streams.Stdout, master) // fails once no process has the terminal open
	if streams.Stdin != nil {
		go io.Copy(master, streams.Stdin)
	}
	go func() {
		conn, err := master.SyscallConn() // Fd would make its reads blocking, without deadlines
		for err == nil {
			select {
			case size := <-p.terminal.Resized:
				w := winsize(size)
				err = conn.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &w) })
			case <-p.closed:
				return
			}
		}
	}()
}

// copyBuffers are the buffers for copying output.
var copyBuffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// Pipe makes a pipe and registers only our end with the poller: 0 for reading, or 1 for writing.
func Pipe(ours int) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_, err = unix.FcntlInt(uintptr(fds[ours]), unix.F_SETFL, unix.O_NONBLOCK)
	r, w = os.NewFile(uintptr(fds[0]), "|0"), os.NewFile(uintptr(fds[1]), "|1")
	return r, w, err
}
