package changes

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// project is a directory of the host, and the program's view of it.
type project struct {
	t          testing.TB
	host, work string
	before     map[string]string
	store      *Store
}

func newProject(t testing.TB, files map[string]string) *project {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &project{t: t, before: files, host: filepath.Join(base, "host"), work: filepath.Join(base, "work")}
	p.store = openStore(t, filepath.Join(base, "state"))
	for _, dir := range []string{p.host, p.work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			putFile(t, dir, name, text)
			if text != "/" && !strings.HasPrefix(text, "-> ") {
				if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Unix(1_000_000_000, 0)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return p
}

func openStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// putFile writes a file, a directory for "/", or a link for "-> target", and removes the path for "!". "+x " before the
// text makes a file executable.
func putFile(t testing.TB, dir, name, text string) {
	t.Helper()
	full := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(full), 0o755)
	target, link := strings.CutPrefix(text, "-> ")
	text, executable := strings.CutPrefix(text, "+x ")
	switch {
	case err != nil:
	case text == "!":
		err = os.RemoveAll(full)
	case text == "/":
		err = os.MkdirAll(full, 0o755)
	case link:
		_ = os.RemoveAll(full)
		err = os.Symlink(target, full)
	default:
		if info, err := os.Lstat(full); err == nil && !info.Mode().IsRegular() {
			_ = os.RemoveAll(full)
		}
		if old, readErr := os.ReadFile(full); readErr != nil || string(old) != text {
			err = os.WriteFile(full, []byte(text), 0o644)
		}
		if err == nil {
			mode := fs.FileMode(0o644)
			if executable {
				mode = 0o755
			}
			err = os.Chmod(full, mode)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// edit makes a program's changes in the workspace.
func (p *project) edit(files map[string]string) *project {
	p.t.Helper()
	for _, name := range sortedKeys(files) {
		putFile(p.t, p.work, name, files[name])
	}
	return p
}

func sortedKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { // removals first
		return cmp.Or(strings.Compare(m[a], m[b])*b2i(m[a] == "!" || m[b] == "!"), strings.Compare(a, b))
	})
	return keys
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// changes lists the whole workspace and the paths removed from it, like a backend that works on a copy.
func (p *project) changes(ctx context.Context, f func(backends.Change) error) error {
	err := filepath.WalkDir(p.work, func(full string, d fs.DirEntry, err error) error {
		if err != nil || full == p.work {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(p.work, full)
		c := backends.Change{Name: name, Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime()}
		if info.Mode()&fs.ModeSymlink != 0 {
			c.Target, err = os.Readlink(full)
		}
		c.Open = func() (io.ReadCloser, error) { return os.Open(full) }
		if err != nil {
			return err
		}
		return f(c)
	})
	if err != nil {
		return err
	}
	return filepath.WalkDir(p.host, func(full string, d fs.DirEntry, err error) error {
		if err != nil || full == p.host {
			return err
		}
		name, _ := filepath.Rel(p.host, full)
		if _, err := os.Lstat(filepath.Join(p.work, name)); err != nil {
			if err := f(backends.Change{Name: name, Removed: true}); err != nil {
				return err
			}
			if d.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
}

func (p *project) proposal(id string) Proposal {
	return Proposal{ID: id, Dir: p.host, Began: time.Now().Add(time.Minute), Changes: p.changes}
}

func (p *project) propose() Set {
	p.t.Helper()
	set, err := p.store.Propose(p.t.Context(), p.proposal("01SET"))
	if err != nil {
		p.t.Fatal(err)
	}
	return set
}

func (p *project) apply(o ApplyOptions) Applied {
	p.t.Helper()
	a, err := p.store.Apply(p.t.Context(), "01SET", o)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

func (p *project) undo() {
	p.t.Helper()
	if _, err := p.store.Undo(p.t.Context(), "01SET"); err != nil {
		p.t.Fatal(err)
	}
}

// treeOf lists a directory: names, modes, contents and times of files.
func treeOf(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, full)
		fmt.Fprintf(&b, "%q %v ", name, info.Mode())
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(full)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%q %d", text, info.ModTime().UnixNano())
		case info.Mode()&fs.ModeSymlink != 0:
			target, _ := os.Readlink(full)
			fmt.Fprint(&b, target)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wantTree compares the host's directory with a listing of treeOf.
func (p *project) wantTree(when, want string) {
	p.t.Helper()
	if got := treeOf(p.t, p.host); got != want {
		p.t.Errorf("%s:\ngot  %s\nwant %s", when, got, want)
	}
}
