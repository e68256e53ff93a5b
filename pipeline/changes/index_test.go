package changes

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// A refresh of the index by git on the host is not a conflict.
func TestIndex(t *testing.T) {
	git := hosttest.Program(t, "git")
	p := newProject(t, map[string]string{"a": "1", "dir/b": "2", "c": "3"})
	run := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), git, append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	touch := func(name string, day int) {
		if err := os.Chtimes(filepath.Join(p.host, name), time.Time{}, time.Date(2020, 1, day, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	index := func(dir string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, ".git/index"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	run(p.host, "init", "-q")
	run(p.host, "add", "a", "dir/b")
	run(p.host, "add", "-N", "c") // version 3
	if err := os.RemoveAll(p.work); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(p.work, os.DirFS(p.host)); err != nil {
		t.Fatal(err)
	}
	old := index(p.host)
	touch("a", 1)
	run(p.host, "status")
	refreshed := index(p.host)
	if string(old) == string(refreshed) || !sameIndex(old, refreshed) {
		t.Errorf("%d and %d bytes", len(old), len(refreshed))
	}
	for i := range old {
		if sameIndex(old[:i], refreshed) || sameIndex(old[:i], old[:i]) {
			t.Fatalf("cut after %d bytes", i)
		}
	}
	putFile(t, p.work, "a", "one")
	run(p.work, "add", "a")
	if sameIndex(old, index(p.work)) {
		t.Error("it has another content")
	}
	p.propose()
	touch("a", 2)
	run(p.host, "status")
	p.apply(ApplyOptions{})
	touch("dir/b", 3)
	run(p.host, "status")
	p.undo()
	run(p.host, "diff", "--exit-code", "--", "a")
	p.apply(ApplyOptions{})
	putFile(t, p.host, "dir/b", "two")
	run(p.host, "add", "dir/b")
	if _, err := p.store.Undo(t.Context(), "01SET"); err == nil {
		t.Error("what the host has added is lost")
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00TREE\x00\x00\x00\x00--------------------"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if files, ok := indexed(b); len(files) > len(b) || ok != sameIndex(b, b) {
			t.Errorf("%d bytes of %d, %v", len(files), len(b), ok)
		}
	})
}
