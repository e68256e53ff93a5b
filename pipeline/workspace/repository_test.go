package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/workspace"
)

func TestRepository(t *testing.T) {
	git, base := hosttest.Program(t, "git"), t.TempDir()
	command := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), git, append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir, cmd.Env = base, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	command("init", "-q", "main")
	command("-C", "main", "commit", "-q", "--allow-empty", "-m", "one")
	command("-C", "main", "worktree", "add", "-q", "../linked")
	main, linked := filepath.Join(base, "main"), filepath.Join(base, "linked")
	write := func(dir, text string) string {
		dir = filepath.Join(base, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".git"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	own := filepath.Join(main, ".git/worktrees/linked")
	if err := os.Symlink(main, filepath.Join(base, "alias")); err != nil {
		t.Fatal(err)
	}
	command("clone", "-q", "main", "within")
	within := filepath.Join(base, "within")
	if err := os.MkdirAll(filepath.Join(within, "fake/worktrees/x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(within, "fake/worktrees/x/gitdir"), []byte(within+"/.git\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, dir, host, inside string
	}{
		{"linked", linked, main + "/.git", main + "/.git"},
		{"the main worktree", main, "", ""},
		{"no repository", base, "", ""},
		{"another's", write("stolen", "gitdir: "+own+"\n"), "", ""},
		{"a directory of the host", write("any", "gitdir: /etc\n"), "", ""},
		{"missing", write("missing", "gitdir: /nowhere/.git/worktrees/x\n"), "", ""},
		{"not a link", write("text", "hello"), "", ""},
		{"large", write("large", "gitdir: "+own+"\n"+string(make([]byte, 5000))), "", ""},
	} {
		m, found := workspace.Repository(tt.dir)
		if found != (tt.host != "") || found && m != (backends.Mount{Host: tt.host, Inside: tt.inside}) {
			t.Errorf("%s: %+v, %v", tt.name, m, found)
		}
	}
	write("linked", "gitdir: ../alias/.git/worktrees/linked\n") // as git writes it with worktree.useRelativePaths
	if m, found := workspace.Repository(linked); !found || m != (backends.Mount{Host: main + "/.git", Inside: "/alias/.git"}) {
		t.Errorf("relative: %+v, %v", m, found)
	}
	if err := os.RemoveAll(filepath.Join(within, ".git")); err != nil {
		t.Fatal(err)
	}
	write("within", "gitdir: "+within+"/fake/worktrees/x\n")
	if m, found := workspace.Repository(within); found {
		t.Errorf("a repository that a program made in the worktree: %+v", m)
	}
}
