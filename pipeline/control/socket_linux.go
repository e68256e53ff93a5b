package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// socket is a listening socket with its file.
type socket struct {
	listener net.Listener
	path     string
	file     os.FileInfo
}

// listen creates the server's socket in dir, and first removes the sockets of dead servers. It holds the directory's
// lock, so that no other process removes the socket as dead between bind(2) and listen(2), or takes the same name.
func listen(dir string, pid int) (*socket, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkPrivate(dir); err != nil {
		return nil, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	left, err := sockets(dir)
	for _, name := range left {
		_, _ = isFree(dir, name) // remove sockets of killed servers; the next server retries failures
	}
	if err != nil {
		return nil, err
	}
	for i := range maxNames {
		name := socketName(pid, i)
		free, err := isFree(dir, name)
		if err != nil {
			return nil, err
		}
		if free {
			return listenAt(dir, name)
		}
	}
	return nil, fmt.Errorf("%d servers there have the process id %d", maxNames, pid)
}

// isFree reports whether no living server has this name, and removes the socket of a dead one. The caller holds the
// directory's lock.
func isFree(dir, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := dial(ctx, dir, name)
	switch {
	case err == nil:
		conn.Close()
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return true, os.Remove(filepath.Join(dir, name+socketSuffix))
	}
	return false, nil // not a socket: leave it
}

// listenAt creates the socket of a free name.
func listenAt(dir, name string) (*socket, error) {
	path, done, err := shortSocketPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // its path may name another file by then
	s := &socket{listener: l, path: filepath.Join(dir, name+socketSuffix)}
	if err = os.Chmod(s.path, 0o600); err == nil {
		s.file, err = os.Lstat(s.path)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return s, nil
}

// remove removes the socket's file, unless another process has replaced it.
func (s *socket) remove() {
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.file) {
		_ = os.Remove(s.path)
	}
}

// checkPrivate returns an error unless dir is a directory that only this user can enter.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || !statefile.IsOurs(info):
		return errors.New("it is not a directory of this user")
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// lock locks a directory. It gives up if another process holds the lock for long, because that is stopped.
func lock(dir string) (unlock func(), err error) {
	f, err := statefile.LockDir(context.Background(), dir, 2*time.Second)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// maxPath is the kernel's limit for the path of a socket, less the NUL, in bytes.
const maxPath = 107

// shortSocketPath returns a path of a socket that is short enough for bind(2) and connect(2), valid until done is
// called.
func shortSocketPath(dir, name string) (path string, done func(), err error) {
	if path = filepath.Join(dir, name+socketSuffix); len(path) <= maxPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + name + socketSuffix, func() { unix.Close(fd) }, nil
}

// dial connects to the socket of this name, if its user may connect to ours: another user must neither receive our
// data nor be believed.
func dial(ctx context.Context, dir, name string) (net.Conn, error) {
	path, done, err := shortSocketPath(dir, name)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uid, err := peer(conn)
	if err == nil && !isAllowedUser(uid) {
		err = fmt.Errorf("user %d listens at this socket, not you", uid)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// peer returns the user at the other end of a connection.
func peer(conn net.Conn) (uid int, err error) {
	cred, err := credentials(conn)
	if err != nil {
		return -1, err
	}
	return int(cred.Uid), nil
}

// credentials returns the peer of a connection, as the kernel recorded it when that connected or began to listen.
func credentials(conn net.Conn) (cred *unix.Ucred, err error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("a %T has no peer credentials", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	if failed := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); failed != nil {
		return nil, failed
	}
	return cred, err
}

// isAllowedUser reports whether a user may connect.
func isAllowedUser(uid int) bool { return uid == 0 || uid == os.Geteuid() }
