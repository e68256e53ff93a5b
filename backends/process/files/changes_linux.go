package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/snapshot"
)

// maxName is the longest name, in bytes, of a directory that Changes reads: the kernel accepts no longer path, and the
// time for the deepest chain of directories that a program can make grows with the square of its depth.
const maxName = unix.PathMax - 1

// proposed has the two sides of a workspace with proposed changes. Names decide whether a path changed. Marks of an
// overlay, which a program may forge, only distinguish a path that the program removed from one that the overlay does
// not show yet because the host added it later.
type proposed struct {
	upper  *os.Root        // the directory in which an overlay stores the writes of programs; nil for a copy
	lower  *os.Root        // the host's directory below the overlay; nil for a copy
	copied snapshot.Names  // of the host's directory; nil for an overlay
	hidden map[string]bool // names that are hidden from the sandbox
}

// before returns the names in a directory on the host, now or when it was copied; nil if there is no directory.
func (p *proposed) before(dir string) []string {
	if p.lower == nil {
		return slices.Collect(maps.Keys(p.copied[dir]))
	}
	names, _ := namesIn(p.lower, dir)
	return names
}

// namesIn returns the names in a directory, or none if there is no such directory.
func namesIn(top *os.Root, dir string) ([]string, error) {
	f, err := openBelow(top, dir)
	if isGone(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// openBelow opens a directory without following a link or entering another mount. It uses one system call if the kernel
// has it: os.Root walks the path step by step, which is slow in a deep chain of directories.
func openBelow(top *os.Root, dir string) (*os.File, error) {
	at, err := top.Open(".")
	if err != nil {
		return nil, err
	}
	defer at.Close()
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOATIME | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(int(at.Fd()), dir, &how)
	if errors.Is(err, unix.EPERM) { // only the owner may leave the access time as it is
		how.Flags &^= unix.O_NOATIME
		fd, err = unix.Openat2(int(at.Fd()), dir, &how)
	}
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // a kernel before 5.6, or a seccomp filter
		return top.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// isGone reports whether err means that there is no such directory, or that something else is in its place.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV)
}

// isOpaque reports whether an overlay shows nothing of a directory of the host whose parent it shows.
func (p *proposed) isOpaque(dir string) (opaque bool) {
	d, err := openBelow(p.upper, dir)
	if err != nil {
		return false
	}
	defer d.Close()
	var value [1]byte
	for _, name := range []string{"user.overlay.opaque", "trusted.overlay.opaque"} {
		n, err := unix.Fgetxattr(int(d.Fd()), name, value[:])
		opaque = opaque || err == nil && n == 1 && value[0] == 'y'
	}
	return opaque
}

func (p *proposed) close() {
	for _, dir := range []*os.Root{p.upper, p.lower} {
		if dir != nil {
			dir.Close()
		}
	}
}

// ProposeOverlay makes Changes list the changes of an overlay over the host's directory lower, which Close closes.
// Programs' writes are in the directory of which upper is an O_PATH descriptor. Changes leaves out the names in hidden.
func (f *Files) ProposeOverlay(upper *os.File, lower *os.Root, hidden map[string]bool) error {
	f.proposed = &proposed{lower: lower, hidden: hidden}
	var err error
	f.proposed.upper, err = openRoot(upper)
	return err
}

// Changes implements [backends.Files].
func (f *Files) Changes(ctx context.Context, do func(backends.Change) error) error {
	if f.proposed == nil {
		return backends.ErrNotProposed
	}
	for todo := []directory{{name: "."}}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, err := f.changesIn(ctx, dir.name, dir.opaque, do)
		if err != nil {
			return err
		}
		todo = append(todo, below...)
	}
	return nil
}

// directory is a directory that Changes has yet to list. It is opaque if an overlay shows nothing of the host's
// directory of that name.
type directory struct {
	name   string
	opaque bool
}

// changesIn calls do for the changes in one directory, and returns the directories among them. In a copy, each path is
// listed as a change.
func (f *Files) changesIn(ctx context.Context, dir string, opaque bool, do func(backends.Change) error) (below []directory, err error) {
	here, there, err := f.list(dir)
	if err != nil {
		return nil, fmt.Errorf("list the changes of %q: %w", dir, err)
	}
	if here == nil {
		return nil, nil
	}
	defer here.Close()
	names := there
	if f.proposed.upper != nil {
		if names, err = namesIn(f.proposed.upper, dir); err != nil {
			return nil, fmt.Errorf("list the changes of %q: %w", dir, err)
		}
	}
	present := make(map[string]bool, len(there))
	for _, name := range there {
		present[name] = true
	}
	opaque = opaque || f.proposed.upper == nil || f.proposed.isOpaque(dir)
	for _, name := range f.proposed.before(dir) {
		if opaque && !present[name] { // otherwise names has a whiteout
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, base := range slices.Compact(names) {
		name := path.Join(dir, base)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if f.proposed.hidden[name] {
			continue
		}
		change, err := f.change(here, name, base)
		if err == nil {
			err = do(change)
		}
		if err != nil {
			return nil, err
		}
		if change.Mode.IsDir() && len(name) <= maxName {
			below = append(below, directory{name, opaque})
		}
	}
	return below, nil
}

// list opens a directory of the workspace, and returns the names in it; here is nil if the directory is gone.
func (f *Files) list(dir string) (here *os.Root, names []string, err error) {
	opened, err := openBelow(f.root, dir)
	if errors.Is(err, fs.ErrPermission) && f.unlock(dir, 0o700) {
		opened, err = openBelow(f.root, dir)
	}
	if isGone(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	defer opened.Close()
	names, err = opened.Readdirnames(-1)
	if errors.Is(err, fs.ErrNotExist) && f.proposed.upper != nil { // the host removed the directory below the overlay
		names, err = namesIn(f.proposed.upper, dir)
	}
	if err != nil {
		return nil, nil, err
	}
	here, err = openRoot(opened)
	return here, names, err
}

// change describes a path of the workspace, whose last part is base in the directory here.
func (f *Files) change(here *os.Root, name, base string) (backends.Change, error) {
	info, err := here.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return backends.Change{Name: name, Removed: true}, nil
	} else if err != nil {
		return backends.Change{}, fmt.Errorf("look at %q: %w", name, err)
	}
	c := backends.Change{Name: name, Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime()}
	f.mu.Lock()
	mode := f.modes[name]
	f.mu.Unlock()
	if mode.of == fileID(info) && mode.set == info.Mode()&^fs.ModeType {
		c.Mode = info.Mode().Type() | mode.was
	}
	switch {
	case info.Mode().IsRegular():
		c.ID = fileID(info)
		c.Open = func() (io.ReadCloser, error) { return f.Open(name, c.ID) }
	case info.Mode()&fs.ModeSymlink != 0:
		if c.Target, err = here.Readlink(base); err != nil {
			return c, fmt.Errorf("look at %q: %w", name, err)
		}
	}
	return c, nil
}
