package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// maxDepth bounds the depth of Each. Opening a file walks its whole path, one directory at a time, so that a program
// could make the server walk a chain of a million directories.
const maxDepth = 128

// files gives access to a workspace by a descriptor of its mount. That outlives the sandbox's processes: artifacts are
// read when no process is left that could change them.
type files struct {
	root *os.Root
	uid  int  // owner of files that Put makes; 0 is the server's user
	own  bool // not a directory of the host: files that the program made unreadable may be opened
}

// openFiles makes files from an O_PATH descriptor of the workspace.
func openFiles(dir *os.File, uid int, own bool) (*files, error) {
	name := fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	return &files{root, uid, own}, nil
}

// Put implements [backends.Files].
func (f *files) Put(name string, mode uint32, r io.Reader) error {
	if err := f.mkdirAll(path.Dir(name)); err != nil {
		return err
	}
	f.root.Remove(name) // never write through a link or into a file that a program has open
	var file *os.File
	err := f.asOwner(func() (err error) {
		file, err = f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := io.Copy(file, r); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if f.uid != 0 {
		if err := file.Chown(f.uid, f.uid); err != nil {
			return err
		}
	}
	return file.Chmod(os.FileMode(mode) & 0o777)
}

// mkdirAll makes dir and its parents.
func (f *files) mkdirAll(dir string) error {
	if dir == "." || dir == "/" {
		return nil
	}
	if err := f.mkdirAll(path.Dir(dir)); err != nil {
		return err
	}
	err := f.asOwner(func() error { return f.root.Mkdir(dir, 0o755) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && f.uid != 0 {
		err = f.root.Lchown(dir, f.uid, f.uid)
	}
	return err
}

// asOwner makes a file as the sandbox's user: on a file system of a user namespace, users without a number there, such
// as the host's root, can't.
func (f *files) asOwner(do func() error) error {
	if f.uid == 0 {
		return do()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Setfsgid(f.uid)
	unix.Setfsuid(f.uid)
	defer func() {
		unix.Setfsuid(0)
		unix.Setfsgid(0)
	}()
	return do()
}

// Each implements [backends.Files].
func (f *files) Each(ctx context.Context, do func(backends.File) error) (int, error) {
	return f.walk(ctx, ".", 0, do)
}

// Changes implements [backends.Files].
func (f *files) Changes(context.Context, func(backends.Change) error) error {
	return backends.ErrNotProposed
}

// walk calls do with the regular files below dir, and returns the number of entries that it left out: those of other
// types, those deeper than maxDepth, and those that can't be read. It ends with an error of do or ctx, or if dir at
// depth 0 can't be opened.
func (f *files) walk(ctx context.Context, dir string, depth int, do func(backends.File) error) (skipped int, err error) {
	d, err := f.openDir(dir)
	if err != nil && depth == 0 {
		return 0, fmt.Errorf("list workspace: %w", err)
	}
	if err != nil || depth > maxDepth {
		return 1, nil
	}
	defer d.Close()
	for {
		entries, readErr := d.ReadDir(256)
		for _, e := range entries {
			if err := ctx.Err(); err != nil {
				return skipped, err
			}
			name := path.Join(dir, e.Name())
			if e.IsDir() {
				n, err := f.walk(ctx, name, depth+1, do)
				skipped += n
				if err != nil {
					return skipped, err
				}
				continue
			}
			info, err := f.root.Lstat(name)
			if err != nil || !info.Mode().IsRegular() {
				skipped++
				continue
			}
			if err := do(f.file(name, info)); err != nil {
				return skipped, err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return skipped, nil
		}
		if readErr != nil {
			return skipped + 1, nil
		}
	}
}

// openDir opens a directory, also one of the sandbox's own from which the program removed all rights.
func (f *files) openDir(name string) (*os.File, error) {
	const flags = os.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	d, err := f.root.OpenFile(name, flags, 0)
	if f.own && errors.Is(err, fs.ErrPermission) && f.root.Chmod(name, 0o700) == nil {
		d, err = f.root.OpenFile(name, flags, 0)
	}
	return d, err
}

// file returns the description of an entry, which opens that file only.
func (f *files) file(name string, entry fs.FileInfo) backends.File {
	return backends.File{
		Name: name, Size: entry.Size(), Mode: uint32(entry.Mode().Perm()), Changed: changed(entry),
		Open: func() (io.ReadCloser, error) { return f.Open(name, fileID(entry)) }, ID: fileID(entry),
	}
}

func fileID(info fs.FileInfo) (id backends.FileID) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id = backends.FileID{uint64(st.Dev), st.Ino}
	}
	return id
}

// Open opens the regular file with an ID, and no replacement.
func (f *files) Open(name string, id backends.FileID) (io.ReadCloser, error) {
	const flags = os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	file, err := f.root.OpenFile(name, flags, 0)
	if f.own && errors.Is(err, fs.ErrPermission) && f.root.Chmod(name, 0o600) == nil {
		file, err = f.root.OpenFile(name, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	// The same number is not enough: on disks it comes again at once, for a fifo if need be.
	if err == nil && (fileID(info) != id || !info.Mode().IsRegular()) {
		err = fmt.Errorf("%s was replaced while it was read", name)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (f *files) close() error { return f.root.Close() }

// changed returns a file's ctime.
func changed(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.ModTime()
	}
	return time.Unix(st.Ctim.Unix())
}

// disks are the writable directories of a container, each a file system of its own, except a workspace that is the
// host's.
var disks = []string{workspace, "/tmp", "/dev/shm"}

// maxFiles bounds the number of files in each of disks, also where the engine could not be configured to: it is the
// bound of a hardened sandbox.
const maxFiles = 256 << 10

// diskUsed returns how many bytes the sandbox's file system holds; of several, their sum.
func (s *Sandbox) diskUsed() int64 {
	if s.landlockOnly {
		return s.dirsUsed()
	}
	return used(s.statDisks())
}

// used returns the bytes that file systems hold, in total.
func used(disks []unix.Statfs_t) (sum int64) {
	for _, st := range disks {
		sum += int64(st.Blocks-st.Bfree) * st.Bsize
	}
	return sum
}

// diskFull reports whether one of the sandbox's file systems has no space left.
func (s *Sandbox) diskFull() bool {
	return slices.ContainsFunc(s.statDisks(), func(st unix.Statfs_t) bool { return st.Type == unix.TMPFS_MAGIC && st.Bfree == 0 })
}

// statDisks returns the state of the sandbox's file systems; zero values once they are closed.
func (s *Sandbox) statDisks() []unix.Statfs_t {
	if !s.inContainer {
		st := make([]unix.Statfs_t, 1)
		if conn, err := s.disk.SyscallConn(); err == nil {
			conn.Control(func(fd uintptr) { unix.Fstatfs(int(fd), &st[0]) })
		}
		return st
	}
	names := disks
	if s.host.Host != "" {
		names = disks[1:]
	}
	if s.home != "" {
		names = append(slices.Clone(names), s.home)
	}
	st := make([]unix.Statfs_t, len(names))
	for i, name := range names {
		unix.Statfs(name, &st[i])
	}
	return st
}

// dirsUsed adds up the size of the files in the sandbox's own directories, in bytes.
func (s *Sandbox) dirsUsed() int64 {
	const inode = 1 << 10 // or empty files could use up those of the host, and each poll would take longer
	var sum int64
	filepath.WalkDir(s.hostDir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += max(info.Sys().(*syscall.Stat_t).Blocks*512, inode)
		}
		return nil
	})
	return sum
}

// diskExceeded reports whether the disk limit is exceeded.
func (s *Sandbox) diskExceeded() bool {
	if s.landlockOnly {
		return s.dirsUsed() > s.limits.Disk
	}
	// A file system that is full to the last byte must report it (ENOSPC), although there is a little in another.
	const slack = 4 << 20
	disks := s.statDisks()
	return used(disks) > s.limits.Disk+slack ||
		slices.ContainsFunc(disks, func(st unix.Statfs_t) bool { return st.Files-st.Ffree > maxFiles })
}
