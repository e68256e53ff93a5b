//go:build unix

package signer

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// trappedDirectory makes a directory with links and FIFOs as traps, beside one with a victim.
func trappedDirectory(t *testing.T) (dir, outside string) {
	t.Helper()
	top := t.TempDir()
	dir, outside = filepath.Join(top, "dir"), filepath.Join(top, "outside")
	for _, d := range []string{dir, outside, filepath.Join(dir, "real"), filepath.Join(dir, "dir")} {
		must(t, os.Mkdir(d, 0o755))
	}
	for _, f := range []string{filepath.Join(outside, "victim"), filepath.Join(dir, "real", "victim"), filepath.Join(dir, "plain")} {
		must(t, os.WriteFile(f, []byte("old"), 0o600))
	}
	for name, target := range map[string]string{
		"file":       "../outside/victim",
		"absolute":   filepath.Join(outside, "victim"),
		"inside":     "real/victim",
		"dangling":   "../outside/new",
		"out":        "../outside",
		"in":         "real",
		"loop":       "loop",
		"self":       ".",
		"SHA256SUMS": "../outside/victim",
	} {
		must(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must(t, os.Link(filepath.Join(outside, "victim"), filepath.Join(dir, "hard")))
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	return dir, outside
}

func TestPreparedDirectory(t *testing.T) {
	const (
		saved       = ""
		linked      = "a link or a file is in place of its directory"
		isDirectory = "a directory has its name"
		tooLong     = "the file system can't take its name"
	)
	long := strings.Repeat("n", 300)
	for name, want := range map[string]string{
		"file": saved, "absolute": saved, "inside": saved, "dangling": saved, "loop": saved, "hard": saved,
		"fifo": saved, "plain": saved, "real/victim": saved, "real/new/deep": saved, "out": saved,
		"out/victim": linked, "out/new/x": linked, "in/victim": linked, "self/plain": linked, "loop/x": linked,
		"plain/x": linked, "fifo/x": linked, "dir": isDirectory, "real": isDirectory,
		long: tooLong, long + "/x": tooLong, "real/" + long: tooLong,
	} {
		t.Run(name[:min(len(name), 20)], func(t *testing.T) {
			dir, outside := trappedDirectory(t)
			before := tree(t, dir)
			m := collect(t, sourceOf(file(name, "new")), Options{Dir: directoryAt(t, dir)})
			if len(m.Artifacts) != 1 || m.Artifacts[0].Withheld != want || m.Artifacts[0].SHA256 != sum("new") {
				t.Errorf("got %+v, want %q", m, want)
			}
			wantTree(t, outside, map[string]string{"victim": "old"})
			delete(before, "SHA256SUMS")
			if want == saved {
				before[name] = "new"
				before["SHA256SUMS"] = sum("new") + "  " + name + "\n"
			}
			wantTree(t, dir, before)
		})
	}
}

// TestDirectoryAndFileOfOneName: names can conflict only if a program changes them meanwhile.
func TestDirectoryAndFileOfOneName(t *testing.T) {
	dir := t.TempDir()
	m := collect(t, sourceOf(file("a", "1"), file("a/x", "2"), file("b/x", "3"), file("b", "4")), Options{Dir: directoryAt(t, dir)})
	var withheld []string
	for _, a := range m.Artifacts {
		if a.Withheld != "" {
			withheld = append(withheld, a.Name)
		}
	}
	if len(withheld) != 2 || withheld[0] != "a/x" || withheld[1] != "b" {
		t.Errorf("withheld %q", withheld)
	}
	wantTree(t, dir, map[string]string{"a": "1", "b/x": "3", "SHA256SUMS": sum("1") + "  a\n" + sum("3") + "  b/x\n"})
}

// TestDirectorySwappedForALink saves files below a directory that a goroutine swaps for links and a FIFO.
func TestDirectorySwappedForALink(t *testing.T) {
	dir, outside := trappedDirectory(t)
	sub, moved := filepath.Join(dir, "sub"), filepath.Join(dir, "aside")
	must(t, os.Mkdir(sub, 0o755))
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	real, err := root.Stat("real")
	must(t, err)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(sub, moved)
			switch i % 3 {
			case 0:
				os.Symlink("../outside", sub)
			case 1:
				os.Symlink("real", sub)
			case 2:
				syscall.Mkfifo(sub, 0o600)
			}
			os.Remove(sub)
			os.Rename(moved, sub)
		}
	}()
	for range hosttest.Rounds(50, 1000) {
		// Errors are acceptable: a listed file may be gone a moment later.
		_, _ = Collect(t.Context(), sourceOf(file("sub/victim", "new"), file("sub/a/b", "new")), Options{Dir: directoryAt(t, dir)})
		for range 200 { // the window is small, so most tries go straight to it
			got, err := hostfs.OpenBelow(root, "sub")
			if err != nil {
				continue
			}
			if info, err := got.Stat("."); err == nil && os.SameFile(info, real) {
				t.Error("went through a link")
			}
			got.Close()
		}
	}
	close(stop)
	<-done
	wantTree(t, outside, map[string]string{"victim": "old"})
	wantTree(t, filepath.Join(dir, "real"), map[string]string{"victim": "old"})
}

// TestOverwritingIsARename: readers of an open old file, also during the write, see the old content and never a
// mixture.
func TestOverwritingIsARename(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	old, err := os.Open(path)
	must(t, err)
	defer old.Close()
	half := reading("a", 6, func() io.Reader {
		r := io.MultiReader(readerFunc(func(p []byte) (int, error) { return copy(p, "new"), io.EOF }),
			readerFunc(func(p []byte) (int, error) {
				if b, _ := os.ReadFile(path); string(b) != "old" {
					t.Errorf("half written, the file reads %q", b)
				}
				return 0, io.EOF
			}))
		return r
	})
	collect(t, sourceOf(half), Options{Dir: directoryAt(t, dir)})
	if b, _ := io.ReadAll(old); string(b) != "old" {
		t.Errorf("the old file was written to: %q", b)
	}
	if b, _ := os.ReadFile(path); string(b) != "new" {
		t.Errorf("got %q", b)
	}
}

func TestModes(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(t.TempDir(), "dir")
	for mode, want := range map[uint32]fs.FileMode{
		0: 0o600, 0o7777: 0o755, 0o4755: 0o755, 0o2666: 0o644, 0o1777: 0o755, 0o644: 0o644, 0o400: 0o600,
		0xffffffff: 0o755, uint32(fs.ModeSetuid) | 0o700: 0o700,
	} {
		for _, find := range []func(io.Reader) (bool, error){nil, containsSecret} {
			f := file("sub/a", "x")
			f.Mode = mode
			collect(t, sourceOf(f), Options{Dir: directoryAt(t, dir), ContainsSecret: find})
			info, err := os.Stat(filepath.Join(dir, "sub/a"))
			must(t, err)
			if info.Mode() != want {
				t.Errorf("mode %o: saved as %v, want %v", mode, info.Mode(), want)
			}
		}
	}
	for _, name := range []string{".", "sub", "SHA256SUMS"} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode()&(0o022|fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	syscall.Umask(0o077)
	collect(t, sourceOf(file("private", "x")), Options{Dir: directoryAt(t, dir)})
	info, err := os.Stat(filepath.Join(dir, "private"))
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("with umask 077: %v", info.Mode())
	}
}

// TestOldSumsAreRemoved: a list about other files than the saved ones would be worse than none.
func TestOldSumsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	collect(t, sourceOf(file("a", "1")), Options{Dir: directoryAt(t, dir)})
	m := collect(t, sourceOf(), Options{Dir: directoryAt(t, dir)})
	if m.Artifacts == nil || len(m.Artifacts) != 0 {
		t.Errorf("got %#v, want an empty list", m.Artifacts)
	}
	wantTree(t, dir, map[string]string{"a": "1"})
}

func TestUnusableDir(t *testing.T) {
	dir, _ := trappedDirectory(t)
	for _, name := range []string{"plain", "plain/x", "loop"} {
		if _, err := Collect(t.Context(), sourceOf(), Options{Dir: directoryAt(t, filepath.Join(dir, name))}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	must(t, os.Remove(filepath.Join(dir, "SHA256SUMS")))
	must(t, os.MkdirAll(filepath.Join(dir, "SHA256SUMS", "x"), 0o755))
	if _, err := Collect(t.Context(), sourceOf(), Options{Dir: directoryAt(t, dir)}); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("SHA256SUMS is a directory: got %v", err)
	}
}
