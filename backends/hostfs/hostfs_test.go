//go:build unix

package hostfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newTestDirs makes project, which a program could write to, beside home, which belongs to a person and holds a
// file.
func newTestDirs(t *testing.T) (project, home string) {
	t.Helper()
	dir, err := Abs(t.TempDir())
	must(t, err)
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	project, home = filepath.Join(dir, "shown"), filepath.Join(dir, "home")
	must(t, errors.Join(os.MkdirAll(filepath.Join(project, "real"), 0o755), os.Mkdir(home, 0o755)))
	must(t, os.WriteFile(filepath.Join(home, "key"), []byte("keep"), 0o600))
	return project, home
}

func checkKey(t *testing.T, home string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "key"))
	entries, errDir := os.ReadDir(home)
	if string(text) != "keep" || len(entries) != 1 || err != nil || errDir != nil {
		t.Errorf("the other directory has %v, and its file %q, %v, %v", entries, text, err, errDir)
	}
}

// TestLeftLinks calls each function with names that lead through links.
func TestLeftLinks(t *testing.T) {
	project, home := newTestDirs(t)
	for name, to := range map[string]string{
		"abs": home, "rel": "../home", "in": "real", "key": "../home/key", "loop": "loop", "none": "../home/new",
	} {
		must(t, os.Symlink(to, filepath.Join(project, name)))
	}
	t.Chdir(project)
	open := map[string]func(string) error{
		"Resolve": func(name string) error { _, err := Resolve(name); return err },
		"OpenDir": func(name string) error { _, err := OpenDir(name); return err },
		"MakeDir": func(name string) error { _, err := MakeDir(name); return err },
		"FindDir": func(name string) error { _, err := FindDir(name); return err },
		"Open":    func(name string) error { _, _, err := Open(name); return err },
		"Parent":  func(name string) error { _, _, err := OpenParent(name + "/x"); return err },
	}
	for what, open := range open {
		for _, name := range []string{"abs", "rel", "in", "key", "loop", "none", "abs/key", "rel/new", "in/x", "real/../abs"} {
			for _, name := range []string{name, filepath.Join(project, name)} {
				err := open(name)
				link, is := errors.AsType[*LinkError](err)
				if !is || filepath.Dir(link.Path) != project || !filepath.IsAbs(link.To) {
					t.Errorf("%s %s: got %v", what, name, err)
				}
			}
		}
	}
	checkKey(t, home)
}

// TestNames opens existing files by names of all forms, and refuses other kinds of files.
func TestNames(t *testing.T) {
	project, home := newTestDirs(t)
	must(t, syscall.Mkfifo(filepath.Join(project, "fifo"), 0o600))
	t.Chdir(filepath.Join(project, "real"))
	t.Setenv("PWD", "/")
	for name, want := range map[string]string{
		".": project + "/real", "..": project, "../../home": home, "../real/.": project + "/real", home: home,
		home + "/../shown//real/": project + "/real", "/": "/",
		"../../home/key": home + "/key", "../fifo": project + "/fifo",
	} {
		if got, err := Resolve(name); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]error{
		"new": fs.ErrNotExist, "new/x": fs.ErrNotExist, "../fifo": syscall.ENOTDIR,
		home + "/key": syscall.ENOTDIR, home + "/key/x": syscall.ENOTDIR,
		"a\x00b": syscall.EINVAL, strings.Repeat("n", 300): syscall.ENAMETOOLONG,
	} {
		if _, err := OpenDir(name); !errors.Is(err, want) {
			t.Errorf("directory %.20q: got %v, want %v", name, err, want)
		}
	}
	for name, want := range map[string]string{
		"new": "no such file", ".": "is a directory", "../fifo": "a FIFO", "/dev/null": "a device", home + "/key/x": "not a directory",
	} {
		if _, _, err := Open(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("file %q: got %v, want %q", name, err, want)
		}
	}
	f, info, err := Open("../../home/key")
	must(t, err)
	defer f.Close()
	if text, _ := io.ReadAll(f); string(text) != "keep" || info.Size() != 4 {
		t.Errorf("got %q, %v", text, info)
	}
	for _, name := range []string{"", "/", "new/", home + "/"} {
		if _, _, err := OpenParent(name); err == nil {
			t.Errorf("Parent of %q: no error", name)
		}
	}
}

// TestFollowed follows links in directories to which no program can have written.
func TestFollowed(t *testing.T) {
	for _, tt := range []struct {
		uid           uint32
		mode          uint32
		top           bool
		neverWritable bool
		want          bool
	}{
		{0, 0o755, true, false, true}, {0, 0o777, true, true, false}, {0, 0o1777, true, true, false}, {0, 0o775, true, true, false},
		{12345, 0o755, true, true, false}, {0, 0o755, false, false, false}, {0, 0o755, false, true, true},
		{12345, 0o755, false, true, false}, {0, 0o777, false, true, false},
	} {
		dir := t.TempDir()
		if os.Geteuid() == 0 {
			must(t, errors.Join(os.Chown(dir, int(tt.uid), 0)))
		} else if tt.uid == 0 || tt.mode != 0o755 {
			continue
		}
		must(t, syscall.Chmod(dir, tt.mode))
		at, err := openTop(dir)
		must(t, err)
		if got := at.trusted(tt.top, tt.neverWritable); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
		at.Close()
	}
	for _, name := range []string{"/bin", "/lib", "/tmp", "/home", "/var/run", "/var/lock"} {
		if want, err := filepath.EvalSymlinks(name); err == nil {
			if got, err := Resolve(name); got != want || err != nil {
				t.Errorf("%s: got %q, %v", name, got, err)
			}
		}
	}
}

// TestBehindLink changes into a directory through a link: a relative name starts at that directory, and not at
// $PWD.
func TestBehindLink(t *testing.T) {
	project, home := newTestDirs(t)
	must(t, os.Symlink(home, filepath.Join(project, "link")))
	t.Chdir(filepath.Join(project, "link"))
	for name, want := range map[string]string{".": home, "key": home + "/key", "./key": home + "/key", "../shown/real": project + "/real"} {
		if got, err := Resolve(name); got != want || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := Resolve(os.Getenv("PWD")); !errors.As(err, new(*LinkError)) {
		t.Errorf("by the name of the link: %v", err)
	}
}

// TestSwappedLater replaces the name of an open directory: files are saved to the open directory.
func TestSwappedLater(t *testing.T) {
	project, home := newTestDirs(t)
	for name, swap := range map[string]func(out string){
		"link":   func(out string) { must(t, errors.Join(os.Rename(out, out+".old"), os.Symlink(home, out))) },
		"parent": func(string) { must(t, errors.Join(os.Rename(project, project+".old"), os.Symlink(home, project))) },
		"gone":   func(out string) { must(t, os.Remove(out)) },
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(project, name)
			must(t, os.MkdirAll(out, 0o755))
			d, err := FindDir(out)
			must(t, err)
			defer d.Close()
			swap(out)
			root, err := d.Open()
			must(t, err)
			err = Replace(root, "key", 0o600, func(f *os.File) error { _, err := f.WriteString("new"); return err })
			if (err != nil) != (name == "gone") {
				t.Error(err)
			}
			checkKey(t, home)
			if name == "parent" {
				must(t, errors.Join(os.Remove(project), os.Rename(project+".old", project)))
			}
		})
	}
}

// TestMissing makes missing directories when they are needed, and never through a link that a program put there.
func TestMissing(t *testing.T) {
	project, home := newTestDirs(t)
	d, err := FindDir(filepath.Join(project, "new/deep"))
	must(t, err)
	if d.LastExisting() != project || d.Path != project+"/new/deep" {
		t.Errorf("got %+v", d)
	}
	if entries, _ := os.ReadDir(project); len(entries) != 1 {
		t.Errorf("to look has made %v", entries)
	}
	must(t, os.Symlink(home, filepath.Join(project, "new")))
	if _, err := d.Open(); !errors.Is(err, ErrNotDir) {
		t.Errorf("through a link: %v", err)
	}
	must(t, errors.Join(os.Remove(filepath.Join(project, "new")), syscall.Mkfifo(filepath.Join(project, "new"), 0o600)))
	if _, err := d.Open(); !errors.Is(err, ErrNotDir) {
		t.Errorf("through a FIFO: %v", err)
	}
	must(t, os.Remove(filepath.Join(project, "new")))
	first, err := d.Open()
	must(t, err)
	if again, err := d.Open(); again != first || err != nil {
		t.Errorf("a second call: %v, %v", again, err)
	}
	must(t, d.Close())
	if info, err := os.Stat(project + "/new/deep"); err != nil || !info.IsDir() {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		must(t, os.Chmod(home, 0o555))
		if _, err := FindDir(filepath.Join(home, "new")); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("where nothing can be made: %v", err)
		}
		must(t, os.Chmod(home, 0o755))
	}
	checkKey(t, home)
}

// TestReplaced writes a file to names that already exist.
func TestReplaced(t *testing.T) {
	project, home := newTestDirs(t)
	at := func(name string) string { return filepath.Join(project, name) }
	must(t, errors.Join(os.Symlink(home+"/key", at("link")), os.Symlink(home+"/new", at("dangling")), os.Link(home+"/key", at("hard")),
		syscall.Mkfifo(at("fifo"), 0o600), os.WriteFile(at("file"), []byte("old"), 0o600)))
	dir, err := OpenDir(project)
	must(t, err)
	defer dir.Close()
	write := func(f *os.File) error { _, err := f.WriteString("new"); return err }
	for _, name := range []string{"link", "dangling", "hard", "fifo", "file", "none"} {
		must(t, Replace(dir, name, 0o600, write))
		if info, err := os.Lstat(at(name)); err != nil || !info.Mode().IsRegular() || info.Size() != 3 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, name := range []string{"real", "../home/key", "none/x"} {
		if err := Replace(dir, name, 0o600, write); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	failed := errors.New("failed")
	if err := Replace(dir, "file", 0o600, func(*os.File) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	entries, _ := os.ReadDir(project)
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") }) {
		t.Errorf("left: %v", entries)
	}
	checkKey(t, home)
}

// TestRenameNew refuses every name that already exists.
func TestRenameNew(t *testing.T) {
	project, home := newTestDirs(t)
	at := func(name string) string { return filepath.Join(project, name) }
	must(t, errors.Join(os.Symlink(home, at("link")), os.Symlink("nowhere", at("dangling")), syscall.Mkfifo(at("fifo"), 0o600),
		os.Mkdir(at("empty"), 0o755)))
	dir, err := OpenDir(project)
	must(t, err)
	defer dir.Close()
	for _, old := range []string{"file", "dir"} {
		if old == "file" {
			must(t, os.WriteFile(at(old), []byte("new"), 0o600))
		} else {
			must(t, os.MkdirAll(at("dir/below"), 0o755))
		}
		for _, name := range []string{"link", "dangling", "fifo", "empty", "real"} {
			before, _ := os.Lstat(at(name))
			if err := RenameNew(dir, old, name); !errors.Is(err, fs.ErrExist) {
				t.Errorf("%s to %s: got %v", old, name, err)
			}
			if after, err := os.Lstat(at(name)); err != nil || !os.SameFile(before, after) {
				t.Errorf("%s to %s: it was replaced, %v", old, name, err)
			}
		}
		want, _ := os.Lstat(at(old))
		must(t, RenameNew(dir, old, "new-"+old))
		if got, err := os.Lstat(at("new-" + old)); err != nil || !os.SameFile(got, want) {
			t.Errorf("%s: %v", old, err)
		}
		if _, err := os.Lstat(at(old)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", old, err)
		}
	}
	checkKey(t, home)
}
