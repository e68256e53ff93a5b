// Package notify performs system calls for programs of the profile "landlock".
//
// Landlock does not restrict changes of modes and times of files. In the profile "landlock" a program runs as our
// user and could change them for all files of that user, also through a descriptor opened for reading. So the
// filter makes the kernel ask us: a program's chmod, fchmod, fchmodat or utimensat waits until we have performed
// it, on a file in a directory that the program may write, or have refused it: seccomp_unotify(2).
//
// The server acts on a file that it has opened and inspected itself (O_PATH), so that no concurrent change by the
// program, of its memory or of links, redirects the call.
package notify

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// request is struct seccomp_notif, and answer struct seccomp_notif_resp.
type request struct {
	id   uint64
	pid  uint32 // thread ID in this process's PID namespace
	_    uint32
	nr   int32
	_    uint32
	_    uint64
	args [6]uint64
}

type answer struct {
	id    uint64
	value int64
	errno int32 // negative
	_     uint32
}

// Serve performs calls on files below one of roots, until no process has the filter any more.
func Serve(listener *os.File, roots []string) {
	defer listener.Close()
	// With O_NONBLOCK, no thread of ours blocks while it waits for a call.
	fd, err := unix.FcntlInt(listener.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil || unix.SetNonblock(fd, true) != nil {
		return
	}
	pollable := os.NewFile(uintptr(fd), "listener")
	defer pollable.Close()
	conn, err := pollable.SyscallConn()
	if err != nil {
		return
	}
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		err := conn.Read(func(uintptr) bool {
			n, err := unix.Poll(poll, 0)
			return n != 0 && err != unix.EINTR
		})
		if err != nil || poll[0].Revents&unix.POLLIN == 0 {
			return
		}
		var q request
		if ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)) != nil {
			continue // a signal has interrupted the call
		}
		err = q.serve(roots, func() bool { return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&q.id)) == nil })
		a := answer{id: q.id}
		if errno := unix.Errno(0); errors.As(err, &errno) {
			a.errno = -int32(errno)
		} else if err != nil {
			a.errno = -int32(unix.EPERM)
		}
		ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a))
	}
}

func ioctl(fd int, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// serve performs the call on a file below one of roots. waits reports whether the caller still waits: until then
// its PID can't be reused.
func (q *request) serve(roots []string, waits func() bool) error {
	var at int64 = unix.AT_FDCWD
	var name, times, mode, flags uint64
	byName := true
	switch q.nr {
	case unix.SYS_FCHMOD:
		at, mode, byName = int64(int32(q.args[0])), q.args[1], false
	case unix.SYS_FCHMODAT:
		at, name, mode = int64(int32(q.args[0])), q.args[1], q.args[2]
	case unix.SYS_UTIMENSAT:
		at, name, times, flags = int64(int32(q.args[0])), q.args[1], q.args[2], q.args[3]
		byName = name != 0
	default: // chmod, which not all architectures have
		name, mode = q.args[0], q.args[1]
	}
	memory, err := os.Open(q.proc("mem"))
	if err != nil {
		return unix.EPERM
	}
	defer memory.Close()
	var path string
	if byName {
		if path, err = stringAt(memory, name); err != nil {
			return err
		}
	}
	var stamps *[2]unix.Timespec
	if times != 0 {
		stamps = new([2]unix.Timespec)
		if _, err := memory.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(stamps)), unsafe.Sizeof(*stamps)), int64(times)); err != nil {
			return unix.EFAULT
		}
	}
	file, err := q.open(int(at), path, byName, flags)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	self := "/proc/self/fd/" + strconv.Itoa(file)
	where, err := os.Readlink(self)
	if err != nil || !slices.ContainsFunc(roots, func(root string) bool { return paths.Within(where, root) }) ||
		mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return unix.EPERM
	}
	if !waits() {
		return unix.EPERM // the caller has gone
	}
	if q.nr != unix.SYS_UTIMENSAT {
		return unix.Chmod(self, uint32(mode)&0o7777)
	}
	var empty byte
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(file), uintptr(unsafe.Pointer(&empty)), uintptr(unsafe.Pointer(stamps)),
		unix.AT_EMPTY_PATH, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// open opens the caller's file with O_PATH.
func (q *request) open(at int, path string, byName bool, flags uint64) (int, error) {
	how := unix.O_PATH | unix.O_CLOEXEC
	base := q.proc("fd/" + strconv.Itoa(at))
	if !byName || path == "" && flags&unix.AT_EMPTY_PATH != 0 {
		return orBadFile(unix.Open(base, how, 0))
	}
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how |= unix.O_NOFOLLOW
	}
	if rest, ok := strings.CutPrefix(path, "/proc/self/"); ok {
		path = q.proc(rest)
	}
	if at == unix.AT_FDCWD || strings.HasPrefix(path, "/") {
		base = q.proc("cwd")
	}
	dir, err := orBadFile(unix.Open(base, unix.O_PATH|unix.O_CLOEXEC, 0))
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return unix.Openat(dir, path, how, 0)
}

// orBadFile returns the kernel's error for a descriptor that does not exist.
func orBadFile(fd int, err error) (int, error) {
	if err == unix.ENOENT {
		err = unix.EBADF
	}
	return fd, err
}

func (q *request) proc(name string) string { return "/proc/" + strconv.Itoa(int(q.pid)) + "/" + name }

// stringAt reads a path from the caller's memory.
func stringAt(memory io.ReaderAt, at uint64) (string, error) {
	text := make([]byte, unix.PathMax)
	n, err := memory.ReadAt(text, int64(at)) // a read stops where the mapping ends
	end := bytes.IndexByte(text[:n], 0)
	switch {
	case end >= 0:
		return string(text[:end]), nil
	case err != nil:
		return "", unix.EFAULT
	}
	return "", unix.ENAMETOOLONG
}
