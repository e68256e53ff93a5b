package hostfs

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// handle is a directory on the way. O_PATH asks for no right to read it.
type handle int

const pathFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

func openTop(name string) (handle, error) {
	fd, err := unix.Open(name, pathFlags, 0)
	return handle(fd), err
}

// step opens the directory elem, or returns where the link elem leads to. Anything else is syscall.ENOTDIR.
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

// trusted reports whether no program can have put a link into the directory: top says that it is the root directory,
// and unshown that no program was shown it as its owner root.
func (h handle) trusted(top, unshown bool) bool {
	var st unix.Stat_t
	err := unix.Fstat(int(h), &st)
	return err == nil && st.Uid == 0 && st.Mode&0o022 == 0 && (top || unshown)
}

// root opens the directory for reading. Its path may lead elsewhere by now.
func (h handle) root(path string) (*os.Root, error) {
	top, err := os.OpenRoot(path + "/.") // which waits for no FIFO
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

// checkWritable returns an error for a directory in which nothing can be made.
func checkWritable(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Faccessat(int(f.Fd()), ".", unix.W_OK, unix.AT_EACCESS)
}

func (h handle) Close() error { return unix.Close(int(h)) }
