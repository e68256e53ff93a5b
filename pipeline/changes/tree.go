package changes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
)

// maxOpen bounds the directories of a tree that are open at once: a path may have 2,000.
const maxOpen = 32

// tree accesses a directory of the host by descriptors, one name at a time, and follows no link.
type tree struct {
	top  *os.Root
	dirs []openDir // each is below the one before it, at any depth

	reach    func(point string) error // a hook of tests: called before each call that changes anything
	plain    bool                     // of tests: the file system supports only plain renames,
	modeless bool                     // and gives all files the same mode
}

func (t *tree) at(point string) error {
	if t.reach == nil {
		return nil
	}
	return t.reach(point)
}

type openDir struct {
	name string
	root *os.Root
}

func openTree(dir string) (*tree, error) {
	top, err := hostfs.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	return &tree{top: top}, nil
}

func (t *tree) Close() error {
	t.closeFrom(0)
	return t.top.Close()
}

func (t *tree) closeFrom(i int) {
	for _, d := range t.dirs[i:] {
		d.root.Close()
	}
	t.dirs = t.dirs[:i]
}

// reset closes all directories but the top: their names may belong to other directories by now.
func (t *tree) reset() { t.closeFrom(0) }

// dir returns the directory of a name, which stays open until the caller asks for another one. "." is the tree itself.
func (t *tree) dir(name string) (*os.Root, error) {
	at, rest := t.top, name
	for i := len(t.dirs) - 1; i >= 0; i-- {
		if d := t.dirs[i]; name == d.name || strings.HasPrefix(name, d.name+"/") {
			at, rest = d.root, strings.TrimPrefix(name[len(d.name):], "/")
			break
		}
		t.closeFrom(i)
	}
	if name == "." {
		return at, nil
	}
	for rest != "" {
		var elem string
		elem, rest, _ = strings.Cut(rest, "/")
		next, err := hostfs.OpenIn(at, elem)
		if err != nil {
			return nil, err
		}
		if len(t.dirs) == maxOpen {
			t.dirs[0].root.Close()
			t.dirs = slices.Delete(t.dirs, 0, 1)
		}
		t.dirs = append(t.dirs, openDir{strings.TrimSuffix(name[:len(name)-len(rest)], "/"), next})
		at = next
	}
	return at, nil
}

// parent returns the directory of a path, and the path's last part.
func (t *tree) parent(name string) (*os.Root, string, error) {
	dir, err := t.dir(dirOf(name))
	return dir, name[strings.LastIndexByte(name, '/')+1:], err
}

// dirOf is path.Dir for a clean path.
func dirOf(name string) string {
	if at := strings.LastIndexByte(name, '/'); at > 0 {
		return name[:at]
	}
	return "."
}

// isNothing reports whether an error means that nothing exists at a path.
func isNothing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, hostfs.ErrNotDir) || errors.Is(err, syscall.ENOTDIR)
}

// state returns the state of a path, and its info, which is nil if nothing exists there. It reads the content of a
// file, and copies it to each writer.
func (t *tree) state(ctx context.Context, name string, to ...io.Writer) (State, fs.FileInfo, error) {
	parent, base, err := t.parent(name)
	if isNothing(err) {
		return State{}, nil, nil
	}
	if err != nil {
		return State{}, nil, err
	}
	return stateIn(ctx, parent, base, to...)
}

func stateIn(ctx context.Context, parent *os.Root, base string, to ...io.Writer) (State, fs.FileInfo, error) {
	info, err := parent.Lstat(base)
	if isNothing(err) {
		return State{}, nil, nil
	}
	if err != nil {
		return State{}, nil, err
	}
	s := State{Kind: kindOf(info.Mode())}
	switch s.Kind {
	case Link:
		s.Target, err = parent.Readlink(base)
	case Directory:
		s.Mode = uint32(info.Mode().Perm())
	case File:
		var f *os.File
		if f, info, err = statefile.OpenIn(parent.Lstat, parent.OpenFile, base); err != nil {
			break
		}
		defer f.Close()
		sum := sha256.New()
		s.Mode = uint32(info.Mode().Perm())
		s.Size, err = io.Copy(io.MultiWriter(append(to, sum)...), reader{ctx, f})
		s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	return s, info, err
}

func kindOf(mode fs.FileMode) string {
	switch mode.Type() {
	case 0:
		return File
	case fs.ModeDir:
		return Directory
	case fs.ModeSymlink:
		return Link
	}
	return Other
}

// same reports whether two states are the same to an apply, which ignores times and owners.
func same(a, b State) bool { return a == b }

// names lists a directory of the tree, in order.
func (t *tree) names(dir string) ([]string, error) {
	d, err := t.dir(dir)
	if err != nil {
		return nil, err
	}
	f, err := d.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// reader fails once its context is cancelled.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
