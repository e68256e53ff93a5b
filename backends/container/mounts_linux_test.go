package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func TestMounts(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, link, engine := filepath.Join(root, "dir"), filepath.Join(root, "link"), filepath.Join(root, "engine")
	os.Mkdir(dir, 0o755)
	os.Mkdir(engine, 0o755)
	os.Symlink("dir", link)
	b := New(newDouble(), Config{})
	s := &engineState{Info: Info{Local: true, Address: "unix://" + engine + "/e.sock"}}
	spec := backends.Spec{Mounts: []backends.Mount{{Host: link, Inside: "/data", Write: true}}, Workspace: backends.Mount{Host: link}}
	want := []Bind{{dir, "/data", true}, {dir, Workspace, false}}
	if got, _, err := b.mounts(s, spec); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for name, m := range map[string]backends.Mount{"own": {Host: dir, Inside: InitPath}, "control socket": {Host: engine, Inside: "/data"}} {
		if _, _, err := b.mounts(s, backends.Spec{Mounts: []backends.Mount{m}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s.Local = false
	if _, _, err := b.mounts(s, spec); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("an engine elsewhere: got %v", err)
	}
	if got, _, err := b.mounts(s, backends.Spec{}); err != nil || len(got) != 0 {
		t.Errorf("an engine elsewhere, and nothing to show: got %v, %v", got, err)
	}
}
