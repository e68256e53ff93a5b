package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestSafeStays looks out of the directories that are allowed.
func TestSafeStays(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		hosttest.Missing(t, "git", err.Error())
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	in, out := filepath.Join(base, "in"), filepath.Join(base, "out")
	for _, dir := range []string{filepath.Join(in, "own"), filepath.Join(in, "linked"), filepath.Join(in, "borrowing"), out} {
		if b, err := exec.Command(git, "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	must(t, os.RemoveAll(filepath.Join(in, "linked", ".git", "refs")))
	must(t, os.Symlink(filepath.Join(out, ".git", "refs"), filepath.Join(in, "linked", ".git", "refs")))
	must(t, os.WriteFile(filepath.Join(in, "borrowing", ".git", "objects", "info", "alternates"), []byte(out+"/.git/objects\n"), 0o644))
	must(t, os.Mkdir(filepath.Join(in, "tree"), 0o755))
	must(t, os.WriteFile(filepath.Join(in, "tree", ".git"), []byte("gitdir: "+out+"/.git\n"), 0o644))
	must(t, os.Mkdir(filepath.Join(in, "none"), 0o755))
	must(t, os.Symlink(out, filepath.Join(in, "-x")))
	p, err := NewPolicy(Rules{Allowed: []string{Safe}, Read: []string{in}})
	must(t, err)
	tests := []struct {
		dir, command string
		allowed      bool
	}{
		{"own", "git log -p", true},
		{"own", "git diff HEAD~1..HEAD -- a", false}, // as two files, where it is no repository to git
		{"own", "git diff HEAD~1..HEAD", true},
		{"own", "git --no-pager diff -- a", true},
		{"none", "git diff e link/f", false},
		{"none", "git diff -- e link/f", false},
		{"tree", "git log -p", false},
		{"linked", "git log -p", false},
		{"borrowing", "git show", false},
		{".", "ls -- -x/", false},
		{".", "ls -- none", true},
		{".", "stat -- -x/.git", false},
	}
	for _, tt := range tests {
		words, err := Parse(tt.command)
		must(t, err)
		if _, err := p.Decide(Command{Words: words, Directory: filepath.Join(in, tt.dir)}, nil); (err == nil) != tt.allowed {
			t.Errorf("%s in %s: got %v, want it allowed: %v", tt.command, tt.dir, err, tt.allowed)
		}
	}
}
