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

// listen makes the server's socket in dir, and first removes the sockets that dead servers left there. It holds the
// directory's lock, so that nobody takes the socket for a dead one between bind(2) and listen(2), nor takes the same
// name.
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
		_, _ = isFree(dir, name) // of servers that were killed; should it not be possible, the next one tries again
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

// isFree reports whether there is no living server of this name, and removes a dead one's socket. The
// caller holds the directory's lock.
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
	return false, nil // whatever it is, it is not ours to remove
}

// listenAt makes the socket of a name that is free.
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
	l.SetUnlinkOnClose(false) // it goes by a path that may mean something else by then
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

// remove removes the socket's file, unless it is another one's by now.
func (s *socket) remove() {
	if info, err := os.Lstat(s.path); err == nil && os.SameFile(info, s.file) {
		_ = os.Remove(s.path)
	}
}

// checkPrivate makes sure that dir is a directory that only this user can enter.
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

// lock takes the lock of a directory. It gives up when somebody holds it for long: who does is stopped.
func lock(dir string) (unlock func(), err error) {
	f, err := statefile.LockDir(context.Background(), dir, 2*time.Second)
	if err != nil {
		return nil, err
	}
	return func() { f.Close() }, nil
}

// maxPath is the kernel's limit for the path of a socket, less the NUL, in bytes.
const maxPath = 107

// shortSocketPath returns a path of a socket that bind(2) and connect(2) take, until done is called.
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

// dial connects to the socket of this name, if it is of who may connect to ours: others would be told what is for ours
// alone, and believed.
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
		err = fmt.Errorf("the user %d listens there, and not you", uid)
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

// credentials returns who is at the other end of a connection, as the kernel took it down when that one connected, or
// began to listen.
func credentials(conn net.Conn) (cred *unix.Ucred, err error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("a %T has no user", conn)
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
