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

// launchers is a pool of small processes that fork sandboxes: one for each concurrent start, up to the number of CPUs.
type launchers struct {
	idle    chan *launcher
	room    chan struct{} // a token for each launcher that may still be started
	done    chan struct{} // closed by close
	mu      sync.Mutex
	retired []*launcher // launchers that did not answer
	closed  bool        // launchers are not dumpable: inside a container, programs of the same user see them
}

// launcher is a process that forks sandboxes.
type launcher struct {
	cmd  *exec.Cmd
	conn *net.UnixConn
}

// newLaunchers returns a pool without any launcher yet.
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
		one, err := startLauncher(l.closed)
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

// warm starts one launcher for the next take.
func (l *launchers) warm() {
	if one, err := l.take(context.Background()); err == nil {
		l.give(one)
	}
}

// pids returns the process numbers of the idle launchers, as text.
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

// give returns a launcher.
func (l *launchers) give(one *launcher) { l.idle <- one }

// lose makes room for a replacement of a launcher that is gone.
func (l *launchers) lose() { l.room <- struct{}{} }

// retire makes room for a replacement of a launcher that did not answer. The processes that it has started live on.
func (l *launchers) retire(one *launcher) {
	l.lose()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = append(l.retired, one)
}

// close ends the launchers. All have been given back, or will be dropped by their users.
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

// startLauncher executes this program again, which package launch takes over at once. A session of its own shields it from
// the terminal's Ctrl-C.
func startLauncher(closed bool) (*launcher, error) {
	conn, theirs, err := socketPair(unix.SOCK_SEQPACKET)
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
	return &launcher{cmd, conn}, nil
}

// close ends the launcher, and with it every process that it has started. It does not wait for a launcher that is stuck.
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

// clone forks a process with flags (CLONE_*), whose end of a socket is control, in a cgroup v2 directory if cgroup is not
// nil. It waits until ctx's deadline.
func (l *launcher) clone(ctx context.Context, flags uint64, control, cgroup *os.File) (pidfd *os.File, pid int, err error) {
	pidfd, pid, err = requestClone(ctx, l.conn, flags, control, cgroup)
	if err != nil && !isForkError(err) {
		err = fmt.Errorf("launcher: %w", err)
	}
	return pidfd, pid, err
}

// requestClone asks the process at the other end of conn to fork. pid is the number in that process's PID namespace. After
// an error other than [forkError] the connection is of no more use: a late answer would be taken for that of the next
// request. Therefore only ctx's deadline ends the wait, with [os.ErrDeadlineExceeded], and its cancellation does not.
func requestClone(ctx context.Context, conn *net.UnixConn, flags uint64, control, cgroup *os.File) (pidfd *os.File, pid int, err error) {
	request := launch.Request{Flags: flags}
	fds := []int{int(control.Fd())}
	if cgroup != nil {
		fds = append(fds, int(cgroup.Fd()))
	}
	if _, _, err := conn.WriteMsgUnix(raw([]launch.Request{request}), unix.UnixRights(fds...), nil); err != nil {
		return nil, 0, fmt.Errorf("ask for a process: %w", err)
	}
	var reply launch.Reply
	deadline, _ := ctx.Deadline() // or none
	conn.SetReadDeadline(deadline)
	_, files, err := receive(conn, unsafe.Slice((*byte)(unsafe.Pointer(&reply)), unsafe.Sizeof(reply)))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, 0, fmt.Errorf("clone3 did not return in time: %w", err)
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

// forkError is a clone3 that failed: the forking process is well, and the host denied the request.
type forkError struct{ errno unix.Errno }

func (e *forkError) Error() string { return "clone3: " + e.errno.Error() }
func (e *forkError) Unwrap() error { return e.errno }

// isForkError reports whether the launcher that returned err can be used again.
func isForkError(err error) bool { return errors.As(err, new(*forkError)) }
