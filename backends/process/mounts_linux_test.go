package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestMountsOfTheHost has mounts that would show more than files. Package backends has all the cases.
func TestMountsOfTheHost(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	session, link := filepath.Join(dir, "session"), filepath.Join(dir, "link")
	os.MkdirAll(filepath.Join(session, "podman"), 0o755)
	os.Symlink("/", link)
	t.Setenv("XDG_RUNTIME_DIR", session)
	b := New(Config{StateDir: t.TempDir()})
	defer b.Close()
	for name, host := range map[string]string{"an engine": session, "all by a link": link, "the kernel": "/sys"} {
		for _, spec := range []backends.Spec{
			{Language: "shell", Mounts: []backends.Mount{{Host: host, Inside: "/data"}}},
			{Language: "shell", Workspace: backends.Mount{Host: host}},
		} {
			s, err := b.Start(t.Context(), spec)
			if err == nil {
				s.Close()
			}
			var refusal *backends.Refusal
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "would show") {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
}

// TestEtc has files of /etc for one program, which it can read and not change.
func TestEtc(t *testing.T) {
	b := newBackend(t, Config{StateDir: t.TempDir()})
	spec := backends.Spec{ID: "etc", Language: "shell", Etc: map[string]string{"some/program/settings.json": "its settings\n"}}
	s, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out bytes.Buffer
	const script = "cd /etc/some/program && cat settings.json; (echo x > settings.json) 2>/dev/null || echo no; ls"
	if _, err := s.Exec(t.Context(), backends.Command{Args: []string{"/bin/sh", "-c", script}}, backends.Streams{Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "its settings\nno\nsettings.json\n" {
		t.Errorf("got %q", got)
	}
}

// TestNoOtherOwner has root show a directory for writing whose file system knows no mounts with other owners: the refusal
// names both.
func TestNoOtherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's sandboxes need it")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil {
		t.Skip("can't mount a ramfs:", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	b := newBackend(t, Config{StateDir: t.TempDir()})
	for _, spec := range []backends.Spec{
		{ID: "work", Language: "shell", Workspace: backends.Mount{Host: dir, Write: true}},
		{ID: "data", Language: "shell", Mounts: []backends.Mount{{Host: dir, Inside: "/data", Write: true}}},
	} {
		s, err := b.Start(t.Context(), spec)
		if err == nil {
			s.Close()
			t.Skip("this kernel maps owners of ramfs")
		}
		var refusal *backends.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, dir) || !strings.Contains(refusal.Reason, "ramfs") || !strings.Contains(refusal.Remedy.String(), "the ordinary user who owns it") {
			t.Errorf("%s: got %v, want a refusal that names the directory, its file system and what to do", spec.ID, err)
		}
	}
}
