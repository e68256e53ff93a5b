package door

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// maxPath is the kernel's limit for the path of a socket, less the NUL, in bytes.
const maxPath = 107

// listenUnix creates a socket for its owner and the group, and replaces a dead one. remove removes its file, unless
// another process has replaced that. The directories above the socket's own are not checked: a user who may rename
// one of them can replace the socket.
func listenUnix(ctx context.Context, path, group string) (l net.Listener, remove func(), err error) {
	if len(path) > maxPath {
		return nil, nil, fmt.Errorf("the path is longer than %d bytes", maxPath)
	}
	gid := -1
	if group != "" {
		if gid, err = groupID(group); err != nil {
			return nil, nil, err
		}
	}
	locked, err := lock(ctx, filepath.Dir(path))
	if err != nil {
		return nil, nil, err
	}
	defer locked.Close()
	if err := removeStaleSocket(ctx, path); err != nil {
		return nil, nil, err
	}
	if l, err = (&net.ListenConfig{Control: createPrivate}).Listen(ctx, "unix", path); err != nil {
		return nil, nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // another process may own the path by then
	info, err := os.Lstat(path)
	if err == nil && gid >= 0 {
		if err = os.Chown(path, -1, gid); err == nil {
			err = os.Chmod(path, 0o660)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	return l, sync.OnceFunc(func() { // once only: the inode number may be reused later
		if now, err := os.Lstat(path); err == nil && os.SameFile(now, info) {
			_ = os.Remove(path)
		}
	}), nil
}

// createPrivate sets the mode of a socket, which bind(2) applies to its file, so that nobody else connects before it
// has its group.
func createPrivate(_, _ string, c syscall.RawConn) (err error) {
	if failed := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); failed != nil {
		return failed
	}
	return err
}

func groupID(name string) (int, error) {
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(id), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// lock keeps servers that start at the same time from removing each other's socket as dead. It gives up after a
// second.
func lock(ctx context.Context, dir string) (*os.File, error) {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir() || statefile.IsForeign(info):
		return nil, fmt.Errorf("%q is not a directory of this user or root", dir)
	case info.Mode().Perm()&0o022 != 0:
		return nil, fmt.Errorf("other users could replace the socket: chmod go-w %q, or use another directory", dir)
	}
	return statefile.LockDir(ctx, dir, time.Second)
}

// removeStaleSocket removes the socket of a dead server.
func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("the file is not a socket: remove it, or use another path")
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		return errors.New("another server listens at this path: stop it, or use another path")
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return err // the server may be alive
}
