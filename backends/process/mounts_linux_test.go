package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestMountsOfTheHost requests mounts that would show more than files. Package backends tests all cases.
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

// TestRightsOfFiles has root mount a directory with files that belong to its owner and have privileges of their
// own.
func TestRightsOfFiles(t *testing.T) {
	dir, b := t.TempDir(), newBackend(t, Config{})
	tool := filepath.Join(dir, "tool")
	spec := backends.Spec{ID: "rights", Language: "shell", Mounts: []backends.Mount{{Host: dir, Inside: "/data", Write: true}}}
	for name, c := range map[string]struct {
		mode  os.FileMode
		caps  bool
		owner int // 0 is the directory's owner
		want  bool
	}{
		"plain":                  {0o755, false, 0, true},
		"set-user-ID":            {os.ModeSetuid | 0o755, false, 0, false},
		"closed to its owner":    {os.ModeSetuid | 0o555, false, 0, false}, // its owner can open it by an access control list
		"set-group-ID":           {os.ModeSetgid | 0o755, false, 0, false},
		"capabilities":           {0o755, true, 0, false},
		"another user's":         {os.ModeSetuid | 0o755, false, 4711, true},
		"another user's, shared": {os.ModeSetuid | 0o775, false, 4711, false},
	} {
		if (c.caps || c.owner != 0) && os.Geteuid() != 0 {
			continue
		}
		os.Remove(tool)
		err := os.WriteFile(tool, []byte("tool"), 0o700)
		if c.owner != 0 && err == nil {
			err = os.Chown(tool, c.owner, c.owner)
		}
		if err == nil {
			err = os.Chmod(tool, c.mode)
		}
		if c.caps && err == nil { // struct vfs_ns_cap_data: revision 2, CAP_NET_BIND_SERVICE
			err = unix.Setxattr(tool, "security.capability", append([]byte{1, 0, 0, 2, 0, 4}, make([]byte, 14)...), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.Start(t.Context(), spec)
		if err == nil {
			s.Close()
		}
		refusal, is := errors.AsType[*backends.Refusal](err)
		c.want = c.want || os.Geteuid() != 0
		if (err == nil) != c.want || err != nil && (!is || !strings.Contains(refusal.Reason, tool)) {
			t.Errorf("%s: got %v, want it shown: %v", name, err, c.want)
		}
	}
}

// TestFlagsOfMounts reads the flags of the host's mounts inside, and of mounts below them: none lets another user's
// file run as that user, or opens a device.
func TestFlagsOfMounts(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	want := 2
	if os.Geteuid() == 0 {
		want++
		below := filepath.Join(dir, "below")
		os.Mkdir(below, 0o755)
		if err := unix.Mount("tmpfs", below, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(below, unix.MNT_DETACH)
	}
	for _, write := range []bool{false, true} {
		s, err := newBackend(t, Config{}).Start(t.Context(), backends.Spec{ID: "flags", Language: "shell",
			Mounts: []backends.Mount{{Host: dir, Inside: "/data", Write: write}}, Workspace: backends.Mount{Host: work, Write: write}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		found := 0
		for line := range strings.Lines(runScript(t, s.(*Sandbox), "while read -r line; do echo \"$line\"; done </proc/self/mountinfo")) {
			f := strings.Fields(line)
			at, options := f[4], strings.Split(f[5], ",")
			if !strings.HasPrefix(at, "/data") && at != workspace {
				continue
			}
			found++
			readOnly := !write || at == "/data/below" && os.Geteuid() == 0
			if !slices.Contains(options, "nosuid") || !slices.Contains(options, "nodev") || slices.Contains(options, "ro") != readOnly {
				t.Errorf("%s, shown for writing %v: %s", at, write, f[5])
			}
		}
		if found != want {
			t.Errorf("found %d mounts, want %d", found, want)
		}
	}
}

// TestMountsOfEarlier changes the host's mounts while a process is idle that has copied them.
func TestMountsOfEarlier(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root mounts file systems of the host")
	}
	b := newBackend(t, Config{})
	early, err := b.SpawnByLauncher(t.Context(), b.Namespaces())
	if err != nil {
		t.Fatal(err)
	}
	defer early.Remove()
	at := t.TempDir()
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH)
	if !early.alive() || early.Good() {
		t.Error("it is dead, or would be used, and show what the new mount hides")
	}
}

// TestEtc gives a program files of /etc, which it can read and not change.
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

// TestNoOtherOwner has root mount a directory for writing on a file system without ID-mapped mounts: the refusal
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
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Reason, dir) || !strings.Contains(refusal.Reason, "ramfs") ||
			!strings.Contains(refusal.Remedy.String(), "the ordinary user who owns it") {
			t.Errorf("%s: got %v, want a refusal that names the directory, its file system and what to do", spec.ID, err)
		}
	}
}
