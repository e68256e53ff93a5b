package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
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
	for name, m := range map[string]backends.Mount{"reserved": {Host: dir, Inside: InitPath},
		"control socket": {Host: engine, Inside: "/data"}} {
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

// TestBelow mounts a directory in which the host has mounted others. A submount without a bind of its own would be
// writable, or would reveal the files that it hides.
func TestBelow(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root mounts file systems of the host")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ kind, name string }{{"tmpfs", "a"}, {"tmpfs", "a/b"}, {"proc", "proc"}} {
		at := filepath.Join(dir, m.name)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(m.kind, at, m.kind, 0, ""); err != nil {
			hosttest.SkipMissing(t, "mounts", err.Error())
		}
		defer unix.Unmount(at, unix.MNT_DETACH)
	}
	b, s := New(newDouble(), Config{}), &engineState{Info: Info{Local: true, Address: "unix:///none"}}
	for write, want := range map[bool][]Bind{
		false: {{dir, "/data", false}, {dir + "/a", "/data/a", false}, {dir + "/a/b", "/data/a/b", false}},
		true:  {{dir, "/data", true}}, // which is recursive
	} {
		got, covers, err := b.mounts(s, backends.Spec{Mounts: []backends.Mount{{Host: dir, Inside: "/data", Write: write}}})
		if err != nil || !slices.Equal(got, want) || !slices.Equal(covers, []string{"/data/proc"}) {
			t.Errorf("writable %v: got %v, covered %v, %v; want %v", write, got, covers, err, want)
		}
	}
}
