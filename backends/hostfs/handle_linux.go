package hostfs

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// handle is an open directory on a path. O_PATH needs no right to read it.
type handle int

const pathFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

func openTop(name string) (handle, error) {
	fd, err := unix.Open(name, pathFlags, 0)
	return handle(fd), err
}

// step opens the directory elem, or returns the target of the link elem. Anything else is syscall.ENOTDIR.
func (h handle) step(elem string) (next handle, to string, err error) {
	fd, err := unix.Openat(int(h), elem, pathFlags, 0)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Openat(int(h), elem, pathFlags, 0)
	}
	if !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
		return handle(fd), "", err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(h), elem, buf)
	if errors.Is(err, unix.EINVAL) {
		return -1, "", unix.ENOTDIR
	}
	return -1, string(buf[:max(n, 0)]), err
}

// trusted reports whether no program can have put a link into the directory. top means that it is the root
// directory; neverWritable means that no sandbox had it writable while root owned it.
func (h handle) trusted(top, neverWritable bool) bool {
	var st unix.Stat_t
	err := unix.Fstat(int(h), &st)
	return err == nil && st.Uid == 0 && st.Mode&0o022 == 0 && (top || neverWritable)
}

// root opens the directory for reading. Its path may lead elsewhere by now.
func (h handle) root(path string) (*os.Root, error) {
	top, err := os.OpenRoot(path + "/.") // does not block on a FIFO
	if err != nil {
		return nil, pathError(path, err)
	}
	var want unix.Stat_t
	info, err := top.Stat(".")
	if err == nil {
		err = unix.Fstat(int(h), &want)
	}
	if err == nil {
		if got, ok := info.Sys().(*syscall.Stat_t); !ok || got.Dev != want.Dev || got.Ino != want.Ino {
			err = ErrReplaced
		}
	}
	if err != nil {
		return nil, errors.Join(pathError(path, err), top.Close())
	}
	return top, nil
}

// checkWritable returns an error for a directory in which no file can be made.
func checkWritable(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Faccessat(int(f.Fd()), ".", unix.W_OK, unix.AT_EACCESS)
}

func (h handle) Close() error { return unix.Close(int(h)) }
