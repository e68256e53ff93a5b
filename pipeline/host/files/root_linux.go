package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// rootedPath is a path below an open root.
type rootedPath struct {
	spot
	dir *os.File // O_PATH
	rel string   // relative to dir; "." is dir itself
}

func (d *rootedPath) Close() error { return d.dir.Close() }

// openParent opens the narrowest root that covers a clean path, and refuses paths that the guard refuses.
func (a Access) openParent(name string, write bool) (*rootedPath, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	roots := slices.Clone(a.Roots)
	slices.SortStableFunc(roots, func(x, y Root) int { return len(y.Path) - len(x.Path) })
	var failed error
	for _, r := range roots {
		if write && !r.Write {
			continue
		}
		d, err := r.open(name)
		if err == nil && d != nil {
			d.private = a.Guard.privatePlaces(r)
			if err = a.Guard.check(d.spot, write); err == nil {
				return d, nil
			}
			d.Close()
		}
		if failed == nil {
			failed = err
		}
	}
	if failed != nil {
		return nil, failed
	}
	return nil, &Denial{Path: name, Outside: true, Why: "is below no directory that is allowed for " + map[bool]string{false: "reading",
		true: "writing"}[write]}
}

// Check refuses a path that no root covers, or whose name the guard refuses.
func (a Access) Check(name string, write bool) error {
	name, err := Clean(name)
	if err != nil {
		return err
	}
	d, err := a.openParent(name, write)
	if err == nil {
		d.Close()
	}
	return err
}

// open opens the root for a path, and returns nil if the root does not cover it.
func (r Root) open(name string) (*rootedPath, error) {
	holds := paths.Within(name, r.Path)
	f, err := r.openPath()
	if err != nil && holds {
		return nil, fmt.Errorf("open the allowed directory %q: %w", r.Path, err)
	}
	if err != nil {
		return nil, nil
	}
	base, err := nameOf(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	d := &rootedPath{spot{root: r, asked: name, base: base}, f, "."}
	switch {
	case holds:
		d.rel = relative(name, r.Path)
	case paths.Within(name, base) && !r.Exact:
		d.rel = relative(name, base)
	default:
		f.Close()
		return nil, nil
	}
	d.real = path.Join(base, d.rel)
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return d, err
	}
	f.Close() // the root is one file: open its directory
	if d.rel != "." {
		return nil, deny(name, "lies in %s, which is a file", r.Path)
	}
	d.rel = path.Base(base)
	d.dir, err = openPath(path.Dir(base), unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	return d, err
}

// openPath opens the root itself.
func (r Root) openPath() (*os.File, error) {
	name := r.Path
	if !r.Exact {
		var err error
		if name, err = hostfs.Resolve(name); err != nil {
			return nil, err
		}
	}
	f, err := openPath(name, 0, unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("its path contains a link, which approvals don't follow: ask for the directory by its real path")
	}
	return f, err
}

func openPath(name string, flags int, resolve uint64) (*os.File, error) {
	fd, err := openat2(unix.AT_FDCWD, name, flags|unix.O_PATH, resolve)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// beneath is the resolution of all paths below a root.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// open opens a path below the root.
func (d *rootedPath) open(rel string, flags int) (*os.File, error) {
	fd, err := openat2(int(d.dir.Fd()), rel, flags, beneath)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, d.linked(rel)
	case errors.Is(err, unix.EXDEV):
		return nil, deny(d.asked, "leaves the directory that is allowed")
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: d.asked, Err: err}
	}
	return os.NewFile(uintptr(fd), path.Join(d.base, rel)), nil
}

// linked returns an error that names the link in a path: the shortest prefix that can't be opened.
func (d *rootedPath) linked(rel string) error {
	for up := path.Dir(rel); up != "."; up = path.Dir(up) {
		if fd, err := openat2(int(d.dir.Fd()), up, unix.O_PATH, beneath); err == nil {
			unix.Close(fd)
			break
		}
		rel = up
	}
	return deny(d.asked, "goes through the link %s, and links are not followed: name what it leads to", path.Join(d.base, rel))
}

func openat2(dir int, name string, flags int, resolve uint64) (fd int, err error) {
	return openHow(dir, name, unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve})
}

// openHow calls openat2, and retries if the kernel noticed a concurrent rename or mount.
func openHow(dir int, name string, how unix.OpenHow) (fd int, err error) {
	for range 100 {
		fd, err = unix.Openat2(dir, name, &how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}

// supported returns an error if the kernel or a seccomp filter does not support openat2.
func supported() error {
	fd, err := openat2(unix.AT_FDCWD, "/", unix.O_PATH, 0)
	if err != nil {
		return fmt.Errorf("files of the host can't be accessed safely: openat2 fails with %q; it needs Linux 5.6 or newer, and in a container "+
			"a seccomp profile that allows it: %w", err, errors.ErrUnsupported)
	}
	return unix.Close(fd)
}

// nameOf returns the path of an open file now.
func nameOf(f *os.File) (string, error) {
	name, err := os.Readlink(self(f))
	if err != nil {
		return "", fmt.Errorf("read the path of a file: %w", err)
	}
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("%s has no name on this host", name)
	}
	return name, nil
}

// self returns a path for exactly the file of an O_PATH descriptor, which can be opened for reading.
func self(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }
