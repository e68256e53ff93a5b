package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func exchangeNames(a, b place) error { return renameat2(a, b, unix.RENAME_EXCHANGE) }

func renameNew(from, to place) error { return renameat2(from, to, unix.RENAME_NOREPLACE) }

func (t *tree) rename(from, to place) error { return renameat2(from, to, 0) }

// renameat2 fails with errors.ErrUnsupported if the kernel or the file system does not know the flags.
func renameat2(from, to place, flags uint) error {
	x, err := from.dir.Open(".")
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := to.dir.Open(".")
	if err != nil {
		return err
	}
	defer y.Close()
	err = unix.Renameat2(int(x.Fd()), from.base, int(y.Fd()), to.base, flags)
	if flags != 0 && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS)) {
		return errors.ErrUnsupported
	}
	return err
}

// chmod sets the permission bits of the file that info describes, and of no other file. It does not change other bits.
func chmod(p place, info fs.FileInfo, mode uint32) error {
	dir, err := p.dir.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, err := unix.Openat(int(dir.Fd()), p.base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), p.base)
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, now) {
		return errReplaced
	}
	mode |= now.Sys().(*syscall.Stat_t).Mode & (unix.S_ISUID | unix.S_ISGID | unix.S_ISVTX)
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode) // fchmod(2) refuses O_PATH
}

// syncAll syncs the tree's whole file system to the disk: one call for thousands of files.
func (t *tree) syncAll() error {
	f, err := t.top.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// syncStaged does nothing: syncAll syncs the file.
func syncStaged(*os.File) error { return nil }

// changeTime returns a file's ctime, which the owner of the file can't set.
func changeTime(info fs.FileInfo) time.Time {
	st := info.Sys().(*syscall.Stat_t)
	return time.Unix(st.Ctim.Unix())
}

// mountOf identifies the mount that a directory is in.
func mountOf(dir *os.Root) (string, error) {
	f, err := dir.Open(".")
	if err != nil {
		return "", err
	}
	defer f.Close()
	var st unix.Statx_t
	err = unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
	return fmt.Sprint(st.Dev_major, st.Dev_minor, st.Mnt_id), err
}

// inherit gives a staged file the owner and group of the file that it replaces. A new file gets the owner and group of
// its directory if this process is root, and the group if the directory has the set-group-ID bit. A change that is not
// permitted is left out.
func inherit(stage *os.Root, base string, old, parent fs.FileInfo) {
	uid, gid := -1, -1
	if st, ok := sysOf(old); ok {
		uid, gid = int(st.Uid), int(st.Gid)
	} else if st, ok := sysOf(parent); ok {
		if os.Geteuid() == 0 {
			uid, gid = int(st.Uid), int(st.Gid)
		} else if st.Mode&unix.S_ISGID != 0 {
			gid = int(st.Gid)
		}
	}
	if uid == os.Geteuid() {
		uid = -1
	}
	if gid == os.Getegid() {
		gid = -1
	}
	if uid >= 0 {
		_ = stage.Lchown(base, uid, -1)
	}
	if gid >= 0 {
		_ = stage.Lchown(base, -1, gid)
	}
}

func sysOf(info fs.FileInfo) (*syscall.Stat_t, bool) {
	if info == nil {
		return nil, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return st, ok
}
