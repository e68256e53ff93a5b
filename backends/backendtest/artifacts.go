//go:build linux

package backendtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// testArtifacts: the server collects a program's workspace with more rights than the program had. No file there may
// mislead the server.
func testArtifacts(t *testing.T, b *bench) {
	b.runParallel(t, "plain", func(t *testing.T) {
		s := b.start(t, b.spec("shell"))
		mustExec(t, s, "bash", "-c", "echo one >a; mkdir -p d/e; echo two >d/e/b; chmod 750 a; : >empty").mustSucceed(t)
		files := filesOf(t, s)
		if len(files) != 3 || files["a"].Size != 4 || files["a"].Mode != 0o750 || files["empty"].Size != 0 {
			t.Errorf("listed %+v", files)
		}
		if text, err := readContent(t, files["d/e/b"]); text != "two\n" || err != nil {
			t.Errorf("content %q, %v", text, err)
		}
	})
	b.runParallel(t, "tricks", func(t *testing.T) { testTricks(t, b) })
	b.runParallel(t, "many files", func(t *testing.T) { testManyFiles(t, b) })
	b.runParallel(t, "deep", func(t *testing.T) { testDeep(t, b) })
	b.runParallel(t, "replaced while collected", func(t *testing.T) { testRaces(t, b) })
	b.runParallel(t, "changed between listing and opening", func(t *testing.T) { testSwapped(t, b) })
	b.runParallel(t, "stopped", func(t *testing.T) {
		s := b.start(t, b.spec("shell"))
		mustExec(t, s, "bash", "-c", "for i in {1..50}; do echo >$i; done").mustSucceed(t)
		enough, n := errors.New("enough"), 0
		if _, err := s.Files().Each(t.Context(), func(backends.File) error {
			if n++; n == 3 {
				return enough
			}
			return nil
		}); !errors.Is(err, enough) || n != 3 {
			t.Errorf("called %d times, %v", n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Files().Each(ctx, func(backends.File) error { return nil }); err == nil {
			t.Error("a cancelled listing went through")
		}
	})
}

// testTricks lists a workspace full of entries that are not regular files or have strange names.
func testTricks(t *testing.T, b *bench) {
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	if err := os.WriteFile(canary, []byte("canary of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := b.start(t, b.spec("python"))
	putPrograms(t, s, "tricks.py")
	o := mustExec(t, s, "python", "tricks.py", canary).mustSucceed(t)
	files := map[string]backends.File{}
	skipped, err := s.Files().Each(t.Context(), func(f backends.File) error {
		files[f.Name] = f
		return nil
	})
	if err != nil {
		t.Fatalf("each: %v", err)
	}
	for name, f := range files {
		if f.Size > 1<<30 { // the sparse file, which claims to be 1 TB
			continue
		}
		text, err := readContent(t, f)
		if strings.Contains(text, "canary of the host") || strings.Contains(text, "root:x:0") {
			t.Errorf("%q shows a file of the host: %.80q", name, text)
		}
		if err != nil && !strings.Contains(name, "sealed") {
			t.Errorf("open %q: %v", name, err)
		}
		if filepath.IsAbs(name) || strings.HasPrefix(name, "../") || strings.Contains(name, "/../") || strings.Contains(name, "\x00") {
			t.Errorf("name %q leaves the workspace", name)
		}
	}
	for _, name := range []string{"plain", "new\nline", "\xff\xfe", "quote'\"", "-rf", "a b", "..dots", "\x1b[31mred", "hard", "cafe\u0301",
		strings.Repeat("n", 255)} {
		if f, ok := files[name]; !ok {
			t.Errorf("%q is not listed", name)
		} else if text, err := readContent(t, f); err != nil || text != "mine" {
			t.Errorf("%q: %q, %v", name, text, err)
		}
	}
	for name := range files {
		for _, bad := range []string{"link", "fifo", "socket", "loop", "directory"} {
			if strings.HasPrefix(name, bad) {
				t.Errorf("%q is listed as a file", name)
			}
		}
	}
	t.Logf("%d files, %d passed over; made: %s", len(files), skipped, o.Stdout)
	if skipped < 8 {
		t.Errorf("passed over %d things, want at least 8", skipped)
	}
}

func testManyFiles(t *testing.T, b *bench) {
	spec := b.spec("python")
	spec.Limits.Disk, spec.Limits.RAM = 512<<20, 512<<20
	s := b.start(t, spec)
	directories := hosttest.Rounds(10, 100)
	mustExec(t, s, "python", "-c", "import os, sys\nfor i in range(int(sys.argv[1])):\n  os.mkdir(str(i))\n  for j in range(1000): "+
		"os.close(os.open('%d/%d' % (i, j), os.O_CREAT | os.O_WRONLY))", itoa(directories)).mustSucceed(t)
	if n := len(filesOf(t, s)); n != directories*1000 {
		t.Errorf("listed %d", n)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// testDeep: directories nested deeper than the longest path.
func testDeep(t *testing.T, b *bench) {
	s := b.start(t, b.spec("python"))
	o := mustExec(t, s, "python", "-c", "import os\nhere, name = os.getcwd(), 'd' * 200\nfor i in range(300):\n  os.mkdir(name); "+
		"os.chdir(name)\nopen('bottom', 'w').write('x')\nos.chdir(here); open('top', 'w').write('x')\nprint('made')")
	if o.Stdout != "made\n" {
		t.Fatalf("%s %s", o.Stdout, o.Stderr)
	}
	if files := filesOf(t, s); files["top"].Size != 1 {
		t.Errorf("%d files, top %v", len(files), files["top"])
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// testRaces: a running program replaces files and directories by links to the host's while the server collects
// them.
func testRaces(t *testing.T, b *bench) {
	dir := t.TempDir()
	os.Chmod(dir, 0o755)
	for _, name := range []string{"file", "plain"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("canary of the host"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := b.spec("python")
	spec.Keep = true
	spec.Limits.CPU = 2
	s := b.start(t, spec)
	putPrograms(t, s, "swap.py")
	if o := mustExec(t, s, "python", "swap.py", dir).mustSucceed(t); !strings.Contains(o.Stdout, "swapping") {
		t.Fatal(o.Stdout)
	}
	seen, errs := 0, 0
	// Without a race, no file could be read at all.
	for n := hosttest.Rounds(1000, 20_000); n > 0 || seen == 0; n-- {
		_, err := s.Files().Each(t.Context(), func(f backends.File) error {
			text, err := readContent(t, f)
			if err != nil {
				errs++
				return nil
			}
			seen++
			if strings.Contains(text, "canary of the host") {
				t.Errorf("%q shows a file of the host", f.Name)
			}
			return nil
		})
		if err != nil {
			t.Errorf("each: %v", err)
			break
		}
		if err := s.Files().Put("directory/put", 0o644, strings.NewReader("owned")); err == nil {
			seen++
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "put")); err == nil {
		t.Error("put wrote to the host's directory")
	}
	t.Logf("%d files read, %d changed under the hand", seen, errs)
}

// testSwapped opens listed files that have been replaced since.
func testSwapped(t *testing.T, b *bench) {
	s := b.session(t, "shell")
	mustExec(t, s, "bash", "-c", "mkdir d; for f in link fifo directory gone other d/file; do echo mine >$f; done").mustSucceed(t)
	files := filesOf(t, s)
	if len(files) != 6 {
		t.Fatalf("listed %v", files)
	}
	mustExec(t, s, "bash", "-c", "rm link fifo directory gone; mv other it; echo mine >other; ln -s /etc/passwd link; mkfifo fifo; mkdir "+
		"directory; mv d e; ln -s /etc d; ln -s /etc/passwd e/passwd").mustSucceed(t)
	for name, f := range files {
		if text, err := readContent(t, f); err == nil && text != "mine\n" {
			t.Errorf("%s: %.80q, want an error", name, text)
		} else if err == nil && name != "d/file" {
			t.Errorf("%s: opened although it was replaced", name)
		}
	}
}
