package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/process/launch"
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
)

// launchers are the small processes that fork sandboxes; one for each that starts at the same
// time, up to the number of CPUs.
type launchers struct {
	idle    chan *launcher
	room    chan struct{} // a token for each that may still be started
	done    chan struct{} // closed by close
	mu      sync.Mutex
	retired []*launcher   // that did not answer
	answers time.Duration // within which each has to answer
	closed  bool          // to those of the same user: programs see them, inside a container
}

// launcher is one of them.
type launcher struct {
	cmd     *exec.Cmd
	conn    *net.UnixConn
	answers time.Duration // within which it has to answer a request
}

func newLaunchers() *launchers {
	n := runtime.NumCPU()
	l := &launchers{idle: make(chan *launcher, n), room: make(chan struct{}, n), done: make(chan struct{})}
	for range n {
		l.room <- struct{}{}
	}
	return l
}

// take waits for an idle launcher, or starts one if there is room.
func (l *launchers) take(ctx context.Context) (*launcher, error) {
	select {
	case one := <-l.idle:
		return one, nil
	default:
	}
	select {
	case one := <-l.idle:
		return one, nil
	case <-l.room:
		one, err := startLauncher(l.closed, l.answers)
		if err != nil {
			l.lose()
		}
		return one, err
	case <-l.done:
		return nil, warm.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// warm starts one, for whoever takes it first.
func (l *launchers) warm() {
	if one, err := l.take(context.Background()); err == nil {
		l.give(one)
	}
}

// pids are those of the launchers that are idle, as text.
func (l *launchers) pids() []string {
	var all []string
	for range len(l.idle) {
		select {
		case one := <-l.idle:
			all = append(all, strconv.Itoa(one.cmd.Process.Pid))
			l.idle <- one
		default:
		}
	}
	return all
}

// give puts a launcher back.
func (l *launchers) give(one *launcher) { l.idle <- one }

// lose makes room for another in the place of one that is no more.
func (l *launchers) lose() { l.room <- struct{}{} }

// retire makes room for another in the place of one that did not answer. What it has started before lives on.
func (l *launchers) retire(one *launcher) {
	l.lose()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = append(l.retired, one)
}

// close ends the launchers. All have been given back, or will be thrown away by who holds them.
func (l *launchers) close() {
	close(l.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.retired {
		one.close()
	}
	for {
		select {
		case one := <-l.idle:
			one.close()
		default:
			return
		}
	}
}

// startLauncher starts our own program again, which package launch takes over at once. A session
// of its own keeps the terminal's Ctrl-C from it.
func startLauncher(closed bool, answers time.Duration) (*launcher, error) {
	conn, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	cmd := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{launch.Name},
		Env:         []string{"GOMAXPROCS=1", "GOTRACEBACK=none"},
		Dir:         "/",
		Stdin:       null,
		Stdout:      null,
		Stderr:      null,
		ExtraFiles:  []*os.File{theirs}, // becomes launch.Sock
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if closed {
		cmd.Args = append(cmd.Args, launch.Closed)
	}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the launcher: %w", err)
	}
	return &launcher{cmd, conn, answers}, nil
}

// close ends the launcher, and with it whatever it started that is still alive. It does not wait for one that is stuck.
func (l *launcher) close() {
	l.conn.Close()
	l.cmd.Process.Kill()
	gone := make(chan struct{})
	go func() {
		l.cmd.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(killTimeout):
	}
}

// clone implements [forker].
func (l *launcher) clone(flags uint64, control, cgroup *os.File) (pidfd *os.File, pid int, err error) {
	pidfd, pid, err = requestClone(l.conn, l.answers, flags, control, cgroup)
	var refused *forkError
	if err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("launcher: %w", err)
	}
	return pidfd, pid, err
}

// requestClone asks who listens at the other end of conn for a process. pid is how it sees that. An error that is no
// [forkError] means that who was asked is of no more use: an answer may still come, and would be taken for the next one's.
func requestClone(conn *net.UnixConn, within time.Duration, flags uint64, control, cgroup *os.File) (pidfd *os.File, pid int, err error) {
	request := launch.Request{Flags: flags}
	fds := []int{int(control.Fd())}
	if cgroup != nil {
		fds = append(fds, int(cgroup.Fd()))
	}
	if _, _, err := conn.WriteMsgUnix(raw([]launch.Request{request}), unix.UnixRights(fds...), nil); err != nil {
		return nil, 0, fmt.Errorf("ask for a process: %w", err)
	}
	var reply launch.Reply
	conn.SetReadDeadline(time.Now().Add(within))
	_, files, err := receive(conn, unsafe.Slice((*byte)(unsafe.Pointer(&reply)), unsafe.Sizeof(reply)))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, 0, fmt.Errorf("clone3 did not return within %v: %w", within, err)
	case errors.Is(err, unix.EMFILE): // the process ends by itself, since nobody has the other end of its socket
		return nil, 0, &forkError{unix.EMFILE}
	case err != nil:
		return nil, 0, fmt.Errorf("it died: %w", err)
	}
	if reply.Errno != 0 || len(files) != 1 {
		return nil, 0, &forkError{unix.Errno(reply.Errno)}
	}
	return files[0], int(reply.Pid), nil
}

// forkError is a clone3 that failed: who was to fork is well, the host would not give what was asked.
type forkError struct{ errno unix.Errno }

func (e *forkError) Error() string { return "clone3: " + e.errno.Error() }
func (e *forkError) Unwrap() error { return e.errno }
