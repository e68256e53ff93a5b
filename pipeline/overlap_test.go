package pipeline

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestOverlap asks for what would let a program write where we write, by name and through links.
func TestOverlap(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"project/out", "state", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "project"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	p := New(Config{Protected: []string{filepath.Join(dir, "state", "log.db")}})
	rw := func(name string) backends.Mount {
		return backends.Mount{Host: filepath.Join(dir, name), Inside: "/x", Write: true}
	}
	for _, c := range []struct {
		name    string
		q       Request
		refused bool
	}{
		{"apart", Request{Workspace: rw("project"), Artifacts: filepath.Join(dir, "elsewhere")}, false},
		{"a longer name", Request{Workspace: rw("project"), Artifacts: filepath.Join(dir, "project2")}, false},
		{"no artifacts", Request{Workspace: rw("project")}, false},
		{"read-only", Request{Workspace: backends.Mount{Host: filepath.Join(dir, "project")}, Artifacts: filepath.Join(dir, "project/out")}, false},
		{"in the workspace", Request{Workspace: rw("project"), Artifacts: filepath.Join(dir, "project/out")}, true},
		{"the workspace itself", Request{Workspace: rw("project"), Artifacts: filepath.Join(dir, "project")}, true},
		{"to be made in it", Request{Workspace: rw("project"), Artifacts: filepath.Join(dir, "project/new/deep")}, true},
		{"through a link", Request{Workspace: rw("project"), Artifacts: filepath.Join(dir, "link/out")}, true},
		{"in a mount", Request{Mounts: []backends.Mount{rw("project")}, Artifacts: filepath.Join(dir, "project/out")}, true},
		{"the log", Request{Workspace: rw("state")}, true},
		{"above the log", Request{Mounts: []backends.Mount{rw(".")}}, true},
		{"the log, read-only", Request{Workspace: backends.Mount{Host: filepath.Join(dir, "state")}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := p.overlap(c.q); (err != nil) != c.refused {
				t.Errorf("got %v, want refused %v", err, c.refused)
			}
		})
	}
}
