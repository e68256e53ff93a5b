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

// maxName is the longest name, in bytes, of a directory that Changes reads: the kernel takes no longer path, and the
// deepest chain of directories that a program makes costs the square of its depth.
const maxName = unix.PathMax - 1

// proposed are the two sides of a workspace with proposed changes. Names alone decide what changed: whiteouts, opaque
// directories and other marks of an overlay are not read, since a program may imitate them.
type proposed struct {
	upper  *os.File        // the directory in which an overlay keeps what programs write; nil for a copy
	lower  *os.Root        // the host's directory below the overlay; nil for a copy
	copied snapshot.Names  // of the host's directory, for a copy
	hidden map[string]bool // names that are covered
}

// before returns the names that a directory has on the host, or had when it was copied; nil if there is no directory.
func (p *proposed) before(dir string) []string {
	if p.lower == nil {
		return slices.Collect(maps.Keys(p.copied[dir]))
	}
	top, err := p.lower.Open(".")
	if err != nil {
		return nil
	}
	defer top.Close()
	names, _ := namesBelow(top, dir)
	return names
}

// namesBelow returns the names in a directory below top, through no link and no other mount. Where there is no such
// directory, it returns none.
func namesBelow(top *os.File, dir string) ([]string, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOATIME | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(int(top.Fd()), dir, &how)
	if errors.Is(err, unix.EPERM) { // its owner alone may leave the time as it is
		how.Flags &^= unix.O_NOATIME
		fd, err = unix.Openat2(int(top.Fd()), dir, &how)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), dir)
	defer f.Close()
	return f.Readdirnames(-1)
}

func (p *proposed) close() {
	p.upper.Close() // of nil, too
	if p.lower != nil {
		p.lower.Close()
	}
}

// ProposeOverlay has Changes list the changes of an overlay over the host's directory lower: what programs write is in
// the directory upper. It leaves out the names in hidden. Close closes both.
func (f *Files) ProposeOverlay(upper *os.File, lower *os.Root, hidden map[string]bool) {
	f.proposed = &proposed{upper: upper, lower: lower, hidden: hidden}
}

// Changes implements [backends.Files].
func (f *Files) Changes(ctx context.Context, do func(backends.Change) error) error {
	if f.proposed == nil {
		return backends.ErrNotProposed
	}
	for todo := []string{"."}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		below, err := f.changesIn(ctx, dir, do)
		if err != nil {
			return err
		}
		todo = append(todo, below...)
	}
	return nil
}

// changesIn calls do for the changes in one directory, and returns the directories among them. Of a copy, that is
// everything in it.
func (f *Files) changesIn(ctx context.Context, dir string, do func(backends.Change) error) (below []string, err error) {
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
		if names, err = namesBelow(f.proposed.upper, dir); err != nil {
			return nil, fmt.Errorf("list the changes of %q: %w", dir, err)
		}
	}
	present := make(map[string]bool, len(there))
	for _, name := range there {
		present[name] = true
	}
	before := f.proposed.before(dir)
	for _, name := range before {
		if !present[name] {
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
			below = append(below, name)
		}
	}
	return below, nil
}

// list opens a directory of the workspace, and returns the names in it; nil if it is gone.
func (f *Files) list(dir string) (here *os.Root, names []string, err error) {
	info, err := f.root.Lstat(dir)
	if err == nil && info.IsDir() {
		var opened *os.File
		if opened, err = f.openDir(dir); err == nil { // with the rights that a program removed
			defer opened.Close()
			here, err = f.root.OpenRoot(dir)
		}
		if err == nil {
			if names, err = opened.Readdirnames(-1); err != nil {
				here.Close()
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil, nil
	}
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
