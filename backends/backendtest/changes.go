//go:build linux

package backendtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// project makes a host directory with files of all kinds for a program to change.
func project(t *testing.T) string {
	dir := makeSharedDir(t)
	for name, text := range map[string]string{
		"a/b/file": "in b", "a/file": "in a", "a/tool": "#!/bin/sh\n", "many/one": "1", "many/two": "2", "deep/1/2/3/4": "4", "same": "same",
	} {
		name = filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Chmod(filepath.Join(dir, "a/tool"), 0o755), os.Mkdir(filepath.Join(dir, "empty"), 0o750),
		os.Symlink("a/file", filepath.Join(dir, "link")),
		syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// inventory describes every path of a directory, by name; with exact also by inode and all times.
func inventory(t *testing.T, dir string, exact bool) map[string]string {
	t.Helper()
	all := map[string]string{}
	var walk func(name string)
	walk = func(name string) {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		target, _ := os.Readlink(path)
		text := describeFile(info.Mode(), target, func() (io.ReadCloser, error) {
			fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NOATIME|syscall.O_CLOEXEC, 0)
			return os.NewFile(uintptr(fd), path), err
		})
		if exact {
			st := info.Sys().(*syscall.Stat_t)
			if info.Mode()&fs.ModeSymlink != 0 {
				st.Atim = st.Mtim // this function changes the access time
			}
			text += fmt.Sprint(" ", st.Ino, st.Uid, st.Gid, st.Nlink, st.Atim, st.Mtim, st.Ctim)
		}
		all[name] = text
		if info.IsDir() {
			fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NOATIME|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			f := os.NewFile(uintptr(fd), path)
			names, _ := f.Readdirnames(-1)
			f.Close()
			for _, base := range names {
				walk(filepath.Join(name, base))
			}
		}
	}
	walk(".")
	return all
}

// describeFile returns the mode of a file and its content or target.
func describeFile(mode fs.FileMode, target string, open func() (io.ReadCloser, error)) string {
	switch {
	case mode.IsDir():
		return mode.String()
	case mode&fs.ModeSymlink != 0:
		return "to " + target
	case !mode.IsRegular():
		return mode.String()
	}
	r, err := open()
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return err.Error()
	}
	if len(text) > 100 || strings.ContainsFunc(string(text), func(c rune) bool { return c < ' ' && c != '\n' }) {
		text = fmt.Appendf(nil, "%x", sha256.Sum256(text))
	}
	return mode.String() + " " + strings.TrimSuffix(string(text), "\n")
}

// changesOf returns the differences from the host's directory: "removed", or a description of the file. It checks
// the order.
func changesOf(t *testing.T, s backends.Sandbox, dir string) map[string]string {
	t.Helper()
	changes, host, removed := map[string]string{}, inventory(t, dir, false), map[string]bool{}
	reported := map[string]bool{".": true}
	err := s.Files().Changes(t.Context(), func(c backends.Change) error {
		if reported[c.Name] || c.Name != filepath.Clean(c.Name) || !filepath.IsLocal(c.Name) {
			t.Errorf("%.100q is reported twice, or is not a name", c.Name)
		}
		_, changed := changes[filepath.Dir(c.Name)]
		if _, there := host[filepath.Dir(c.Name)]; !reported[filepath.Dir(c.Name)] && !(there && !changed) || removed[filepath.Dir(c.Name)] {
			t.Errorf("%.100q comes before its directory, or out of one that is gone", c.Name)
		}
		reported[c.Name] = true
		text := "removed"
		if removed[c.Name] = c.Removed; !c.Removed {
			text = describeFile(c.Mode, c.Target, c.Open)
		}
		if text != host[c.Name] {
			changes[c.Name] = text
		}
		return nil
	})
	if err != nil {
		t.Errorf("changes: %v", err)
	}
	return changes
}

func (b *bench) proposing(dir string) backends.Spec {
	return b.specWithWorkspace(backends.Mount{Host: dir, Propose: true})
}

// testChanges has programs change a host directory, which must stay unchanged.
func testChanges(t *testing.T, b *bench) {
	long, deep := strings.Repeat("n", 255), strings.Repeat("d/", 300)+"d"
	for _, c := range []struct {
		name, script string
		want         map[string]string
	}{
		{"nothing", `cat a/file >/dev/null; ls -R >/dev/null`, nil},
		{"edit", `echo more >>a/b/file; echo new >given`, map[string]string{"a/b/file": "-rw-r--r-- in bmore", "given": "-rw-rw-rw- new"}},
		{"add", `echo x >a/new; mkdir d; echo y >d/y`, map[string]string{"a/new": "-rw-r--r-- x", "d": "drwxr-xr-x", "d/y": "-rw-r--r-- y"}},
		{"remove", `rm a/file link; rmdir empty`, map[string]string{"a/file": "removed", "link": "removed", "empty": "removed"}},
		{"remove a directory", `rm -r a many`, map[string]string{"a": "removed", "many": "removed"}},
		{"chmod", `chmod 600 a/file; chmod 700 many`, map[string]string{"a/file": "-rw------- in a", "many": "drwx------"}},
		{"link", `ln -sfn a/tool link; ln -s /etc/passwd out; ln a/file hard`,
			map[string]string{"link": "to a/tool", "out": "to /etc/passwd", "hard": "-rw-r--r-- in a"}},
		{"rename a file", `mv a/file many/moved`, map[string]string{"a/file": "removed", "many/moved": "-rw-r--r-- in a"}},
		{"rename a directory", `mv a z`, map[string]string{"a": "removed", "z": "drwxr-xr-x", "z/b": "drwxr-xr-x",
			"z/b/file": "-rw-r--r-- in b", "z/file": "-rw-r--r-- in a", "z/tool": "-rwxr-xr-x #!/bin/sh"}},
		{"a directory made again", `rm -r a; mkdir a; echo other >a/file; echo x >a/x`,
			map[string]string{"a/b": "removed", "a/file": "-rw-r--r-- other", "a/tool": "removed", "a/x": "-rw-r--r-- x"}},
		{"a directory made again, deeper", `rm -r deep; mkdir -p deep/1/2`, map[string]string{"deep/1/2/3": "removed"}},
		{"an empty directory", `mkdir -p new/empty`, map[string]string{"new": "drwxr-xr-x", "new/empty": "drwxr-xr-x"}},
		{"other kinds", `rm -r a link empty; echo x >a; mkdir link; ln -s same empty; rm same; mkdir same`, map[string]string{
			"a": "-rw-r--r-- x", "link": "drwxr-xr-x", "empty": "to same", "same": "drwxr-xr-x"}},
		{"what was added is removed", `echo x >x; mkdir y; echo z >y/z; rm -r x y; mv given g; mv g given`, nil},
		{"files of tools", `cd; echo x >.history; mkdir -p .cache ${XDG_CACHE_HOME:-.}/x`, nil},
		{"a FIFO", `mkfifo p; rm fifo 2>/dev/null || true`, map[string]string{"p": "prw-r--r--"}},
		{"names", `echo x >$'new\nline'; echo x >` + long + `; echo x >$'\xff\xfe'; echo x >'a:b,c\d'; mkdir -p ` + deep + `; echo x >` + deep +
			`/x`,
			map[string]string{"new\nline": "-rw-r--r-- x", long: "-rw-r--r-- x", "\xff\xfe": "-rw-r--r-- x", `a:b,c\d`: "-rw-r--r-- x",
				deep + "/x": "-rw-r--r-- x"}},
		{"closed", `mkdir -p c/d; echo x >c/d/x; chmod 0 c/d/x c/d c a/file`, map[string]string{"c": "d---------", "c/d": "d---------",
			"c/d/x": "---------- x", "a/file": "---------- in a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := project(t)
			before := inventory(t, dir, true)
			s := b.start(t, b.proposing(dir))
			mustExec(t, s, "bash", "-ec", c.script).mustSucceed(t)
			for range 2 {
				got := changesOf(t, s, dir)
				for d := deep; d != "." && c.want[deep+"/x"] != ""; d = filepath.Dir(d) {
					delete(got, d)
				}
				delete(got, "fifo") // a copy has no FIFO
				compare(t, got, c.want)
			}
			compare(t, inventory(t, dir, true), before)
		})
	}
	t.Run("deeper than any path", func(t *testing.T) {
		dir := project(t)
		if !b.hasPython() {
			t.Skip("no python")
		}
		spec := b.proposing(dir)
		spec.Language = "python"
		s := b.start(t, spec)
		mustExec(t, s, "python", "-c", "import os\nfor i in range(2500): os.mkdir('d'); os.chdir('d')\nopen('deepest', 'w').close()").mustSucceed(
			t)
		deepest, all := 0, 0
		if err := s.Files().Changes(t.Context(), func(c backends.Change) error {
			deepest, all = max(deepest, len(c.Name)), all+1
			return nil
		}); err != nil || deepest < 4090 || all < 2048 {
			t.Errorf("got %d names of up to %d bytes, %v", all, deepest, err)
		}
	})
	t.Run("of many", func(t *testing.T) { testManyChanges(t, b) })
	t.Run("set-user-ID", func(t *testing.T) {
		dir := project(t)
		s := b.start(t, b.proposing(dir))
		o := mustExec(t, s, "bash", "-c", "chmod 4755 a/tool && echo changed")
		want := map[string]string{}
		if o.Stdout != "" {
			want["a/tool"] = "urwxr-xr-x #!/bin/sh"
		}
		compare(t, changesOf(t, s, dir), want)
	})
	t.Run("marks of an overlay", func(t *testing.T) { testOverlayMarks(t, b) })
	t.Run("the host changes it", func(t *testing.T) { testHostChanges(t, b) })
	t.Run("git", func(t *testing.T) { testGitChanges(t, b) })
	t.Run("a difficult name", func(t *testing.T) {
		dir := filepath.Join(project(t), `a:b,c\d"e'f`+"\n ")
		os.Mkdir(dir, 0o755)
		os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644)
		s := b.start(t, b.proposing(dir))
		mustExec(t, s, "bash", "-ec", "cat file; echo y >file; echo z >z").mustSucceed(t)
		compare(t, changesOf(t, s, dir), map[string]string{"file": "-rw-r--r-- y", "z": "-rw-r--r-- z"})
	})
	t.Run("in a session", func(t *testing.T) {
		dir := project(t)
		spec := b.proposing(dir)
		spec.Keep = true
		s, other := b.start(t, spec), b.start(t, spec)
		mustExec(t, s, "bash", "-ec", "echo x >x; rm same").mustSucceed(t)
		compare(t, changesOf(t, s, dir), map[string]string{"x": "-rw-r--r-- x", "same": "removed"})
		mustExec(t, s, "bash", "-ec", "echo same >same; chmod 644 same; rm x").mustSucceed(t)
		compare(t, changesOf(t, s, dir), nil)
		if err := s.Files().Put("a/put", 0o644, strings.NewReader("put")); err != nil {
			t.Error(err)
		}
		compare(t, changesOf(t, s, dir), map[string]string{"a/put": "-rw-r--r-- put"})
		compare(t, changesOf(t, other, dir), nil)
	})
	t.Run("refused", func(t *testing.T) {
		dir := project(t)
		mount := b.spec("shell")
		mount.Mounts = []backends.Mount{{Host: dir, Inside: "/data", Propose: true}}
		for name, spec := range map[string]backends.Spec{"both": b.specWithWorkspace(backends.Mount{Host: dir, Write: true, Propose: true}),
			"nothing": b.specWithWorkspace(backends.Mount{Propose: true}), "a mount": mount} {
			if refusal := new(backends.Refusal); !errors.As(b.startRefused(t, spec), &refusal) {
				t.Errorf("%s: it started", name)
			}
		}
		if err := b.start(t, b.specWithWorkspace(backends.Mount{Host: dir})).Files().Changes(t.Context(), nil); !errors.Is(err,
			backends.ErrNotProposed) {
			t.Errorf("changes of a workspace that is not proposed: %v", err)
		}
	})
}

func (b *bench) hasPython() bool { return b.o.Has == nil || slices.Contains(b.o.Has, "python") }

// compare reports names whose description differs.
func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, text := range got {
		if text != want[name] {
			t.Errorf("%.300q: got %q, want %q", name, text, want[name])
		}
	}
	for name, text := range want {
		if _, there := got[name]; !there {
			t.Errorf("%.300q: is missing, want %q", name, text)
		}
	}
}

// testManyChanges removes, adds and ignores a thousand files each.
func testManyChanges(t *testing.T, b *bench) {
	dir := project(t)
	want := map[string]string{}
	for i := range 1000 {
		os.WriteFile(filepath.Join(dir, "many", itoa(i)), nil, 0o644)
		os.WriteFile(filepath.Join(dir, "a/b", itoa(i)), nil, 0o644)
		want["many/"+itoa(i)], want["d/"+itoa(i)], want["d"] = "removed", "-rw-r--r-- ", "drwxr-xr-x"
	}
	s := b.start(t, b.proposing(dir))
	mustExec(t, s, "bash", "-ec", "rm many/[0-9]*; mkdir d; cd d; for ((i = 0; i < 1000; i++)); do : >$i; done").mustSucceed(t)
	compare(t, changesOf(t, s, dir), want)
}

// testOverlayMarks has a program imitate an overlay's marks, and search for the directory that contains the real
// ones.
func testOverlayMarks(t *testing.T, b *bench) {
	if !b.hasPython() {
		t.Skip("no python")
	}
	dir := project(t)
	before := inventory(t, dir, true)
	spec := b.proposing(dir)
	spec.Language = "python"
	s := b.start(t, spec)
	o := mustExec(t, s, "python", "-c", `import os, stat
def attempt(what, f, *args, **named):
    try:
        return f(*args, **named)
    except (OSError, AttributeError):
        pass
attempt("a whiteout", os.mknod, "same.white", stat.S_IFCHR | 0o600, os.makedev(0, 0))
os.rename("a/tool", "a/tool.old")
attempt("a whiteout", os.mknod, "a/tool", stat.S_IFCHR | 0o600, os.makedev(0, 0))
open(".wh.given", "w").close()
open("a/.wh..wh..opq", "w").close()
os.mkdir("opaque")
for prefix in ("user.overlay.", "trusted.overlay.", "user.overlay.overlay."):
    for path in ("many", "opaque", "a", "."):
        for name, value in (("opaque", b"y"), ("opaque", b"x"), ("redirect", b"/a"), ("whiteout", b"y"), ("metacopy", b""), ("origin", b"x" * 30), ("impure", b"y")):
            attempt("a mark", os.setxattr, path, prefix + name, value)
    for path in ("same", "given"):
        for name, value in (("whiteout", b"y"), ("metacopy", b""), ("redirect", b"/a/file")):
            attempt("a mark", os.setxattr, path, prefix + name, value)
for line in open("/proc/self/mountinfo"):
    f = line.split()
    if "/run/disk" in f[4] or "/overlay" in f[4] or "/lower" in f[4]:
        for path in (f[4], f[4] + "/workspace", f[4] + "/overlay", f[4] + "/upper"):
            for open_it in (os.listdir, lambda p: open(p + "/reached", "w"), lambda p: os.chmod(p, 0o777)):
                if attempt("the upper directory", open_it, path) is not None:
                    print("reached", path)
for path in ("/run/disk", "/run/disk/all", "/run/disk/all/workspace", "/run/disk/lower"):
    attempt("open it", os.chmod, path, 0o777)
    if attempt("list it", os.listdir, path) is not None:
        print("reached", path)
for fd in attempt("list", os.listdir, "/proc/1/fd") or ():
    print("reached", fd)
`)
	if o.Stdout != "" || o.ExitCode != 0 {
		t.Errorf("got %s%s", o.Stdout, o.Stderr)
	}
	got := changesOf(t, s, dir)
	for name, text := range got {
		if strings.HasPrefix(text, "D") { // a device, where one could be made
			delete(got, name)
		}
	}
	delete(got, "fifo")
	want := map[string]string{"a/tool.old": "-rwxr-xr-x #!/bin/sh", "a/tool": "removed", ".wh.given": "-rw-r--r-- ",
		"a/.wh..wh..opq": "-rw-r--r-- ", "opaque": "drwxr-xr-x"}
	if _, gone := got["a/tool"]; !gone {
		delete(want, "a/tool")
	}
	compare(t, got, want)
	compare(t, inventory(t, dir, true), before)
}

// testHostChanges has the host change the directory in which a program works.
func testHostChanges(t *testing.T, b *bench) {
	dir := project(t)
	spec := b.proposing(dir)
	spec.Keep = true
	s := b.start(t, spec)
	mustExec(t, s, "bash", "-ec", "ls -R >/dev/null; echo x >a/b/new; rm many/one; exec 3<a/file; stat nothing >/dev/null "+
		"2>&1 || true").mustSucceed(t)
	for _, err := range []error{
		os.RemoveAll(filepath.Join(dir, "a")), os.Remove(filepath.Join(dir, "many/one")),
		os.WriteFile(filepath.Join(dir, "same"), []byte("other"), 0o644),
		os.Rename(filepath.Join(dir, "deep"), filepath.Join(dir, "deeper")), os.Mkdir(filepath.Join(dir, "nothing"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	mustExec(t, s, "bash", "-c", "ls -R; cat a/file same deep/1/2/3/4; echo y >a/y; echo z >deep/z; rm -r deep; echo x >x")
	seen := map[string]bool{}
	if err := s.Files().Changes(t.Context(), func(c backends.Change) error {
		seen[c.Name] = true
		if c.Open != nil {
			if r, err := c.Open(); err == nil {
				io.Copy(io.Discard, r)
				r.Close()
			}
		}
		return nil
	}); err != nil || !seen["x"] || !seen["a/b/new"] || seen["nothing"] {
		t.Errorf("got %v, %v", seen, err)
	}
	mustExec(t, s, "bash", "-c", "echo alive").mustSucceed(t)
}

// testGitChanges commits in a host repository.
func testGitChanges(t *testing.T, b *bench) {
	dir := project(t)
	spec := b.proposing(dir)
	spec.Language, spec.Keep = backends.AnyProgram, true
	s := b.start(t, spec)
	if o := mustExec(t, s, "bash", "-c", "git --version"); o.ExitCode != 0 {
		b.skipMissing(t, "git", "no git inside")
	}
	const git = `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; set -e; `
	mustExec(t, s, "bash", "-c", git+"git init -q; git add -A; git commit -qm one; echo more >>a/file; git status --short; git commit -qam "+
		"two; git log --oneline | wc -l").mustSucceed(t)
	changes := changesOf(t, s, dir)
	if changes["a/file"] != "-rw-r--r-- in amore" || changes[".git/HEAD"] == "" || changes["same"] != "" {
		t.Errorf("got %v", changes)
	}
	o := mustExec(t, s, "bash", "-c", git+"git status --short; git reset -q --hard HEAD~1; git gc -q; git fsck; cat a/file").mustSucceed(t)
	if o.Stdout != "in a" {
		t.Errorf("got %q, %q", o.Stdout, o.Stderr)
	}
	if changes := changesOf(t, s, dir); changes["a/file"] != "" {
		t.Errorf("after a reset, a/file is %q", changes["a/file"])
	}
}
