package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
)

func TestHidden(t *testing.T) {
	backendtest.Hidden(t, func(t testing.TB, hidden []string) backends.Backend {
		return New(Config{StateDir: t.TempDir(), Hidden: hidden})
	}, backendtest.Options{Profile: "hardened"})
}

// TestHiddenElsewhere mounts a directory above a hidden file under another name.
func TestHiddenElsewhere(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	dir, err := os.MkdirTemp("/tmp", "hidden")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	join := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"home/state/keys", "other", "apart/keys"} {
		os.MkdirAll(join(name), 0o755)
	}
	os.Chmod(dir, 0o755)
	os.WriteFile(join("home/state/keys/key"), []byte("canary"), 0o644)
	for at, from := range map[string]string{"other": "home", "apart/keys": "home/state/keys"} {
		if err := unix.Mount(join(from), join(at), "", unix.MS_BIND, ""); err != nil {
			t.Skip(err)
		}
		defer unix.Unmount(join(at), unix.MNT_DETACH)
	}
	b := New(Config{StateDir: t.TempDir(), Hidden: []string{join("home/state")}})
	defer b.Close()
	for _, name := range []string{"other", "apart", ""} {
		s, err := b.Start(t.Context(), backends.Spec{Language: "shell", Workspace: backends.Mount{Host: join(name)}})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		_, err = s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "find . -type f -exec cat {} +; find"}},
			backends.Streams{Stdout: &out})
		if s.Close(); err != nil || strings.Contains(out.String(), "canary") || !strings.Contains(out.String(), "/") {
			t.Errorf("%q: got %q, %v", name, out.String(), err)
		}
	}
	for _, name := range []string{"other/state", "other/state/keys", "apart/keys"} {
		s, err := b.Start(t.Context(), backends.Spec{Language: "shell", Workspace: backends.Mount{Host: join(name)}})
		if err == nil {
			s.Close()
			t.Errorf("%s was shown", name)
		}
	}
}

// TestHiddenLandlock tests hidden files in the profile that can't mount anything over them.
func TestHiddenLandlock(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	os.Mkdir(filepath.Join(dir, "state"), 0o755)
	b := New(Config{StateDir: t.TempDir(), Hidden: []string{filepath.Join(dir, "state")}})
	defer b.Close()
	for name, spec := range map[string]backends.Spec{
		"mount":     {Mounts: []backends.Mount{{Host: dir, Inside: dir}}},
		"workspace": {Workspace: backends.Mount{Host: dir}},
	} {
		spec.Language, spec.Profile = "shell", "landlock"
		s, err := b.Start(t.Context(), spec)
		if err == nil {
			s.Close()
		}
		var refusal *backends.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "can't hide") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
