//go:build linux

package backendtest

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func testFiles(t *testing.T, b *bench) {
	t.Run("of the host", func(t *testing.T) {
		target, check := filesTarget(t)
		target["mounted"] = b.o.Mounted
		var seen []string
		if !b.promises(backends.LayerMount) { // otherwise names can be guessed, users are visible, and mounts are the host's
			seen = []string{"stat_", "password_file_of_the_host", "mounts_that_may_be_written"}
		}
		checkReports(t, b.runAttacks(t, "files.py", target), seen...)
		check(t)
	})
	t.Run("of our user", func(t *testing.T) {
		if b.promises(backends.LayerMount) {
			t.Skip("no file of the host is there but what is mounted")
		}
		target := userTarget(t)
		before := describeTarget(t, target)
		b.checkAttacks(t, "ouruser.py", target, backends.Mount{Host: filepath.Dir(target["shown"].(string)),
			Inside: filepath.Dir(target["shown"].(string))})
		if after := describeTarget(t, target); after != before {
			t.Errorf("files of the host were %s, and are %s", before, after)
		}
	})
	t.Run("modes and times", func(t *testing.T) { testModes(t, b) })
	t.Run("put", func(t *testing.T) { testPut(t, b) })
	t.Run("put through links", func(t *testing.T) { testPutLinks(t, b) })
}

// canary is a word that appears nowhere else. It contains its owner's pid, so that leftovers of a killed test can be
// recognised.
func canary() string { return "canary-" + itoa(os.Getpid()) + "-" + ulid.Make().String() }

// sweepCanaries removes files of killed tests from a directory.
func sweepCanaries(dir string) {
	all, _ := filepath.Glob(filepath.Join(dir, "canary-*-*"))
	for _, path := range all {
		if pid := strings.Split(filepath.Base(path), "-")[1]; !pathExists("/proc/" + pid) {
			os.Remove(path)
		}
	}
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// filesTarget puts canaries into every host directory that a program might find. The returned function checks that
// they are unchanged.
func filesTarget(t *testing.T) (map[string]any, func(*testing.T)) {
	word := canary()
	var canaries, writable []string
	home, _ := os.UserHomeDir()
	cwd, _ := os.Getwd()
	config, _ := os.UserConfigDir()
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/root", home, config, cwd,
		"/opt", "/srv", "/mnt", "/var/lib", os.TempDir(), t.TempDir()} {
		sweepCanaries(dir)
		path := filepath.Join(dir, word)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(path); os.Remove(path + "-written") })
		f.WriteString(word)
		f.Chmod(0o666)
		f.Close()
		canaries = append(canaries, path)
		if fi, err := os.Stat(dir); err == nil && fi.Mode().Perm()&0o002 != 0 {
			writable = append(writable, dir)
		}
	}
	sealed := []string{}
	for _, path := range []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers"} {
		if pathExists(path) {
			sealed = append(sealed, path)
		}
	}
	target := map[string]any{"word": word, "canaries": canaries, "writable": writable, "sealed": sealed}
	return target, func(t *testing.T) {
		t.Helper()
		for _, path := range canaries {
			if text, err := os.ReadFile(path); err != nil || string(text) != word {
				t.Errorf("canary %s was changed: %q, %v", path, text, err)
			}
		}
		for _, dir := range writable {
			if pathExists(filepath.Join(dir, word+"-written")) {
				t.Errorf("a file was left in %s", dir)
			}
		}
	}
}

// userTarget creates files and objects of our user for ouruser.py.
func userTarget(t *testing.T) map[string]any {
	objects := sharedObjects(t, canary())
	target := map[string]any{"pid": os.Getpid(), "mq": objects["mq"]}
	for kind, number := range objects["numbers"].(map[string]int) {
		target[kind] = number
	}
	for _, name := range []string{"closed", "shown"} {
		target[name] = filepath.Join(t.TempDir(), "canary")
		if err := os.WriteFile(target[name].(string), []byte("untouched"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return target
}

// describeTarget returns the state of the files of userTarget.
func describeTarget(t *testing.T, target map[string]any) (all string) {
	for _, name := range []string{"closed", "shown"} {
		for _, path := range []string{target[name].(string), filepath.Dir(target[name].(string))} {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			all += info.Mode().String() + " " + info.ModTime().String() + "; "
		}
	}
	return all
}

// testModes: a program can change modes and times of its own files, as everyday programs do.
func testModes(t *testing.T, b *bench) {
	s := b.start(t, b.spec("python"))
	o := mustExec(t, s, "python", "-c", `import os, shutil, tarfile
os.chdir(os.environ["HOME"])
open("tool", "w").write("#!/bin/sh\necho tool\n")
os.chmod("tool", 0o755)
assert os.popen("./tool").read() == "tool\n"
for copy in (shutil.copy, shutil.copy2):
    copy("tool", "copy")
    assert os.access("copy", os.X_OK)
os.mkdir("directory")
os.chmod("directory", 0o700)
os.symlink("directory/file", "link")
with open("directory/file", "w") as f:
    os.fchmod(f.fileno(), 0o640)
    os.utime(f.fileno(), (1000, 2000))
assert os.stat("link").st_mtime == 2000 and os.stat("link").st_mode & 0o777 == 0o640
os.chmod("link", 0o600)
os.utime("link", (3, 4))
os.utime("link", (5, 6), follow_symlinks=False)
assert (os.stat("directory/file").st_mtime, os.lstat("link").st_mtime, os.stat("link").st_mode & 0o777) == (4, 6, 0o600)
os.chmod("file", 0o644, dir_fd=os.open("directory", os.O_RDONLY))
os.chmod("/proc/self/fd/%d" % os.open("directory/file", os.O_PATH), 0o444)
assert os.stat("directory/file").st_mode & 0o777 == 0o444
gone = os.open("gone", os.O_CREAT | os.O_RDWR)
os.unlink("gone")
os.fchmod(gone, 0o600)
with tarfile.open("t.tar", "w") as tar:
    tar.add("directory")
with tarfile.open("t.tar") as tar:
    tar.extractall("out")
assert os.stat("out/directory/file").st_mtime == 4
for wrong, why in (("nowhere", 2), ("tool/x", 20), ("", 2), ("n" * 300, 36), ("x/" * 3000, 36)):
    try:
        os.chmod(wrong, 0o600)
    except OSError as e:
        assert e.errno == why, (wrong, e)
    else:
        assert False, wrong
for fd in (99, -1):
    try:
        os.fchmod(fd, 0o600)
    except OSError as e:
        assert e.errno == 9, e
print("ok")`).mustSucceed(t)
	if o.Stdout != "ok\n" {
		t.Errorf("got %q", o.Stdout)
	}
}

// testPut: names stay in the workspace, and the program owns the files.
func testPut(t *testing.T, b *bench) {
	t.Setenv("TMPDIR", t.TempDir()) // without other processes' files
	s := b.start(t, b.spec("shell"))
	for _, name := range []string{"plain", "a/b/c/deep", "with space", "new\nline", "ünï ☃", "-rf", "\xff\xfe",
		"..hidden", "a/..b", strings.Repeat("n", 255)} {
		putText(t, s, name, "content of "+name)
	}
	for _, name := range []string{"", ".", "..", "../out", "/abs", "a/../../out", "a/b/../../../out", "plain/under a file",
		"x\x00y", "a//..//../out", strings.Repeat("n", 256)} {
		if err := s.Files().Put(name, 0o644, strings.NewReader("x")); err == nil {
			t.Errorf("put %.40q: no error", name)
		}
	}
	if err := s.Files().Put("part", 0o644, io.MultiReader(strings.NewReader("x"), brokenReader{})); err == nil {
		t.Error("a reader's error was swallowed")
	}
	if err := s.Files().Put("plain", 0o600, strings.NewReader("new")); err != nil {
		t.Errorf("put again: %v", err)
	}
	if err := s.Files().Put("tool", 0o755, strings.NewReader("#!/bin/sh\necho tool\n")); err != nil {
		t.Error(err)
	}
	if err := s.Files().Put("setuid", 0o6755, strings.NewReader("x")); err == nil {
		if mode := filesOf(t, s)["setuid"].Mode; mode&^0o777 != 0 {
			t.Errorf("mode %o was kept", mode)
		}
	}
	o := mustExec(t, s, "bash", "-c", `set -e
[ "$(cat plain)" = new ]; [ "$(stat -c %a plain)" = 600 ]; ./tool
for f in plain a/b/c/deep tool a/b; do [ -O $f ] || echo "not mine: $f"; done
echo more >>a/b/c/deep; rm plain; mkdir a/b/mine; chmod 700 tool; cat $'new\nline'; mv a b; rm -r b`).mustSucceed(t)
	if o.Stdout != "tool\ncontent of new\nline" {
		t.Errorf("got %q, %q", o.Stdout, o.Stderr)
	}
	if outside, _ := filepath.Glob(filepath.Join(os.TempDir(), "out")); len(outside) > 0 {
		t.Errorf("left outside: %v", outside)
	}
}

// testPutLinks: Put does not follow a link in place of a directory or file.
func testPutLinks(t *testing.T, b *bench) {
	begun := time.Now()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("untouched"), 0o666); err != nil {
		t.Fatal(err)
	}
	s := b.session(t, "shell")
	mustExec(t, s, "bash", "-c", `set -e
ln -s "$1" directory; ln -s "$1/secret" file; ln -s /etc etc; ln -s / root; mkfifo fifo; mkdir real; ln -s .. real/up; ln -s nowhere dangling`,
		"bash", dir).mustSucceed(t)
	for _, name := range []string{"directory/new", "file", "etc/new", "root/tmp/new", "real/up/up", "fifo", "dangling", "fifo/x"} {
		err := s.Files().Put(name, 0o644, strings.NewReader("owned"))
		t.Logf("put %s: %v", name, err)
	}
	if text, _ := os.ReadFile(secret); string(text) != "untouched" {
		t.Errorf("a file of the host was written: %q", text)
	}
	for _, path := range []string{filepath.Join(dir, "new"), "/etc/new", "/tmp/new"} {
		if info, err := os.Lstat(path); err == nil && info.ModTime().After(begun) {
			t.Errorf("%s was made on the host", path)
		}
	}
}

// filesOf returns all files of a sandbox by name.
func filesOf(t *testing.T, s backends.Sandbox) map[string]backends.File {
	t.Helper()
	files := map[string]backends.File{}
	if _, err := s.Files().Each(t.Context(), func(f backends.File) error {
		files[f.Name] = f
		return nil
	}); err != nil {
		t.Errorf("each: %v", err)
	}
	return files
}

// readContent reads at most 1 MB of a file.
func readContent(t testing.TB, f backends.File) (string, error) {
	t.Helper()
	if f.Open == nil {
		return "", os.ErrNotExist // it was not listed
	}
	r, err := f.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, 1<<20))
	return string(text), err
}
