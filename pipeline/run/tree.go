package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// A tree is a snapshot of a host workspace before the program: files created or changed since are the artifacts. It
// compares sizes, times and inodes, because hashing a whole project twice would cost more than most runs.
type tree struct {
	root   *os.Root
	before map[string]stamp
	traps  map[string]stamp
	tooBig bool
}

// A stamp changes when a file's content does. A program can set size and mtime back, but not ctime.
type stamp struct {
	size         int64
	mtime, ctime int64 // nanoseconds
	inode        uint64
}

// maxTree bounds the files of a host workspace that are compared, at about 5 µs each.
const maxTree = 50_000

// unwatched are directories that tools fill with thousands of files; changes in them are not artifacts.
var unwatched = map[string]bool{
	".git": true, ".hg": true, ".svn": true, "node_modules": true, ".venv": true, "venv": true,
	"__pycache__": true, ".tox": true, ".mypy_cache": true, ".pytest_cache": true, ".ruff_cache": true,
}

var errTooBig = errors.New("too many files")

// snapshotTree records the files of dir.
func snapshotTree(ctx context.Context, dir string) (*tree, error) {
	root, err := hostfs.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	t := &tree{root: root, before: map[string]stamp{}}
	t.traps = t.findTraps()
	err = t.walk(ctx, func(name string, info fs.FileInfo) error {
		t.before[name] = stampOf(info)
		return nil
	})
	if errors.Is(err, errTooBig) {
		t.tooBig, t.before, err = true, nil, nil
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return t, nil
}

// walk calls f for each regular file, without following links.
func (t *tree) walk(ctx context.Context, f func(string, fs.FileInfo) error) error {
	seen := 0
	return fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if seen++; seen > maxTree {
			return errTooBig
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case err != nil: // removed meanwhile, or not readable
			return nil
		case d.IsDir() && unwatched[path.Base(name)]:
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		return f(name, info)
	})
}

// changed lists the files created or changed since snapshotTree, as a signer.Source. It skips links: those that
// existed before belong to the host.
func (t *tree) changed(ctx context.Context, f func(signer.File) error) (int, error) {
	if t.tooBig {
		return 0, fmt.Errorf("the workspace has more than %d files, so changes were not collected", maxTree)
	}
	err := t.walk(ctx, func(name string, info fs.FileInfo) error {
		if was, ok := t.before[name]; ok && was == stampOf(info) {
			return nil
		}
		return f(signer.File{
			Name: name,
			Size: info.Size(),
			Mode: uint32(info.Mode().Perm()),
			Open: func() (io.ReadCloser, error) {
				f, _, err := statefile.OpenIn(t.root.Lstat, t.root.OpenFile, name)
				return f, err
			},
		})
	})
	return 0, err
}

// changedTraps names the files that the host's own tools execute later, such as git hooks, and that the program
// created or changed in the workspace.
func (t *tree) changedTraps() []string {
	var found []string
	for name, now := range t.findTraps() {
		if t.traps[name] != now {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

// findTraps returns the stamps of files that tools on the host execute or read as configuration.
func (t *tree) findTraps() map[string]stamp {
	stamps := map[string]stamp{}
	add := func(name string) {
		if info, err := t.root.Lstat(name); err == nil && !info.IsDir() {
			stamps[name] = stampOf(info)
		}
	}
	for _, name := range []string{".git/config", ".git/info/attributes", ".envrc", ".vscode/tasks.json", ".vscode/settings.json"} {
		add(name)
	}
	hooks, _ := fs.ReadDir(t.root.FS(), ".git/hooks")
	for _, h := range hooks {
		if !strings.HasSuffix(h.Name(), ".sample") {
			add(".git/hooks/" + h.Name())
		}
	}
	return stamps
}

func (t *tree) Close() error { return t.root.Close() }
