package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// maxDepth bounds the depth of Each. To open a file, os.Root walks its whole path, one directory at a time: without the
// bound, a program could make the server walk a chain of a million directories.
const maxDepth = 128

// Files accesses a workspace by a descriptor of its mount. The descriptor outlives the sandbox's processes: artifacts
// are read when no process is left that could change them.
type Files struct {
	root *os.Root
	uid  int  // owner of files that Put creates; 0 is the server's user
	own  bool // the workspace is not a directory of the host: files that the program made unreadable may be opened

	proposed *proposed // changes of the host's directory; nil without them
	mu       sync.Mutex
	modes    map[string]unlocked // of the paths whose mode unlock changed; guarded by mu
}

// unlocked records the mode that a program set on a file or directory, and the mode by which unlock replaced it so that
// this process could open the path.
type unlocked struct {
	of       backends.FileID
	was, set fs.FileMode // permission bits
}

// Open opens the workspace of which dir is an O_PATH descriptor. Files that Put creates belong to uid, unless that is
// 0. own means that the workspace is not a directory of the host: this process may change the mode of a path to open
// it.
func Open(dir *os.File, uid int, own bool) (*Files, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	return &Files{root: root, uid: uid, own: own, modes: map[string]unlocked{}}, nil
}

// openRoot opens the directory of an O_PATH descriptor.
func openRoot(dir *os.File) (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
}

// Put implements [backends.Files].
func (f *Files) Put(name string, mode uint32, r io.Reader) error {
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

// mkdirAll creates dir and its parents.
func (f *Files) mkdirAll(dir string) error {
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

// asOwner runs do as the sandbox's user, to create files: on a file system of a user namespace, a user without an ID
// there, such as the host's root, can't create any.
func (f *Files) asOwner(do func() error) error {
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
func (f *Files) Each(ctx context.Context, do func(backends.File) error) (int, error) {
	return f.walk(ctx, ".", 0, do)
}

// walk calls do with the regular files below dir, and returns the number of entries that it left out: entries of other
// types, entries deeper than maxDepth, and unreadable ones. It fails with an error of do or ctx, or if dir at depth 0
// can't be opened.
func (f *Files) walk(ctx context.Context, dir string, depth int, do func(backends.File) error) (skipped int, err error) {
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
			if err := do(f.describeFile(name, info)); err != nil {
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

// openDir opens a directory, even if it is one of the sandbox's own from which the program removed all rights.
func (f *Files) openDir(name string) (*os.File, error) {
	const flags = os.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	d, err := f.root.OpenFile(name, flags, 0)
	if errors.Is(err, fs.ErrPermission) && f.unlock(name, 0o700) {
		d, err = f.root.OpenFile(name, flags, 0)
	}
	return d, err
}

// unlock changes the mode of a file or directory of the sandbox's own, so that this process, as its owner, can open it.
func (f *Files) unlock(name string, mode fs.FileMode) bool {
	info, err := f.root.Lstat(name)
	if !f.own || err != nil || f.root.Chmod(name, mode) != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.modes[name] = unlocked{fileID(info), info.Mode() &^ fs.ModeType, mode}
	return true
}

// describeFile returns the description of an entry. The description's Open opens only the same file.
func (f *Files) describeFile(name string, entry fs.FileInfo) backends.File {
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

// Open opens the regular file with an ID, and no replacement of it.
func (f *Files) Open(name string, id backends.FileID) (io.ReadCloser, error) {
	const flags = os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	file, err := f.root.OpenFile(name, flags, 0)
	if errors.Is(err, fs.ErrPermission) && f.unlock(name, 0o600) {
		file, err = f.root.OpenFile(name, flags, 0)
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	// An equal inode number is not enough: disks reuse it at once, even for a FIFO.
	if err == nil && (fileID(info) != id || !info.Mode().IsRegular()) {
		err = fmt.Errorf("%s was replaced while it was read", name)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Root returns the directory of the workspace.
func (f *Files) Root() *os.Root { return f.root }

// Close closes the descriptors.
func (f *Files) Close() error {
	if f.proposed != nil {
		f.proposed.close()
	}
	return f.root.Close()
}

// changed returns a file's ctime.
func changed(info fs.FileInfo) time.Time {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.ModTime()
	}
	return time.Unix(st.Ctim.Unix())
}
