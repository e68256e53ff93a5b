package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// noOverlays returns a backend on a simulated kernel that makes no overlays of files on the device of a path.
func noOverlays(t testing.TB, c Config, path string) *Backend {
	b := newBackend(t, c)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b.overlays.known = map[uint64]error{uint64(info.Sys().(*syscall.Stat_t).Dev): errors.New("none here")}
	return b
}

// TestProposedCopies runs the contract of changes without overlays.
func TestProposedCopies(t *testing.T) {
	backendtest.Run(t, func(t testing.TB) backends.Backend { return noOverlays(t, Config{}, t.TempDir()) },
		backendtest.Options{Profile: "hardened", Only: []string{"Changes"}})
}

// TestProposedTooLarge proposes changes by a copy that does not fit on the disk.
func TestProposedTooLarge(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := backends.Spec{ID: "large", Language: "shell", Limits: backends.Limits{Disk: 2 << 20},
		Workspace: backends.Mount{Host: dir, Propose: true}}
	s, err := noOverlays(t, Config{}, dir).Start(t.Context(), spec)
	if err == nil {
		s.Close()
	}
	if refusal, is := errors.AsType[*backends.Refusal](err); !is || !strings.Contains(refusal.Reason, "disk of 2 MiB") ||
		!strings.Contains(refusal.Reason, "none here") {
		t.Errorf("got %v, want a refusal that names the limit, and why it is a copy", err)
	}
	if s, err = newBackend(t, Config{}).Start(t.Context(), spec); err != nil {
		hosttest.SkipMissing(t, "overlay", err.Error())
	}
	s.Close() // an overlay takes no disk space
}

// TestProposedHidden proposes changes of a workspace that contains hidden files.
func TestProposedHidden(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(filepath.Join(dir, "a/state"), 0o755)
	os.WriteFile(filepath.Join(dir, "a/state/key"), []byte("canary"), 0o644)
	os.WriteFile(filepath.Join(dir, "log"), []byte("canary"), 0o644)
	config := Config{Hidden: []string{filepath.Join(dir, "a/state"), filepath.Join(dir, "log")}, StateDir: t.TempDir()}
	for name, b := range map[string]*Backend{"an overlay": newBackend(t, config), "a copy": noOverlays(t, config, dir),
		"landlock": newBackend(t, config)} {
		t.Run(name, func(t *testing.T) {
			spec := backends.Spec{ID: "hidden", Language: "shell", Workspace: backends.Mount{Host: dir, Propose: true}}
			if name == "landlock" {
				needProfile(t, name)
				spec.Profile = name
			}
			s, err := b.Start(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			const script = "cat a/state/key log; mkdir -p a/state/x; echo x >log; chmod 600 log; echo x >a/new; rm -rf a/state log; mv a b; true"
			if got := runScript(t, s.(*Sandbox), "("+script+") 2>/dev/null"); strings.Contains(got, "canary") {
				t.Errorf("got %q", got)
			}
			var changes []string
			err = s.Files().Changes(t.Context(), func(c backends.Change) error {
				changes = append(changes, c.Name)
				return nil
			})
			if bad := func(name string) bool { return name == "log" || strings.HasPrefix(name, "a/state") }; err != nil ||
				slices.ContainsFunc(changes, bad) {
				t.Errorf("got %q, %v", changes, err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "a/state/key")); string(text) != "canary" {
				t.Errorf("the hidden file: %q, %v", text, err)
			}
		})
	}
}

// propose changes the workspace, as the test binary's role, and prints the changes.
func propose() {
	b := New(Config{StateDir: os.Getenv("SANDBOXMCP_TEST_STATE")})
	defer b.Close()
	s, err := b.Start(context.Background(), backends.Spec{ID: "test", Language: "shell",
		Workspace: backends.Mount{Host: os.Getenv("SANDBOXMCP_TEST_WORKSPACE"), Propose: true}})
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	defer s.Close()
	r, err := s.Exec(context.Background(), backends.Command{
		Args: []string{"bash", "-ec", "echo x >>file; echo y >dir/new; mv dir/old dir/other"}},
		backends.Streams{Stdout: os.Stdout, Stderr: os.Stdout})
	fmt.Println(r.Ended, err, s.(*Sandbox).copied)
	s.Files().Changes(context.Background(), func(c backends.Change) error {
		fmt.Println(c.Name, c.Removed)
		return nil
	})
}

// TestProposedForeign proposes changes of a project whose files belong to a second group of an ordinary user, which
// an overlay's user namespace does not map: it is copied. If they are root's, their owners are preserved.
func TestProposedForeign(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root can give files to another group")
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir(); d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	work := filepath.Join(dir, "work")
	os.MkdirAll(filepath.Join(work, "dir"), 0o775)
	for _, name := range []string{"file", "dir/old"} {
		os.WriteFile(filepath.Join(work, name), []byte("old"), 0o664)
		os.Chmod(filepath.Join(work, name), 0o664)
	}
	os.Mkdir(filepath.Join(dir, "state"), 0o777)
	os.Chmod(filepath.Join(dir, "state"), 0o777)
	exe := filepath.Join(dir, "process.test")
	self, _ := os.Executable()
	if out, err := exec.Command("cp", self, exe).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	const user, group = 12345, 12346
	for _, c := range []struct{ name, foreign, copied string }{
		{"nothing", "", ""}, {"the directory", ".", work}, {"a file", "file", filepath.Join(work, "file")},
		{"a directory", "dir", filepath.Join(work, "dir")},
	} {
		t.Run(c.name, func(t *testing.T) {
			filepath.WalkDir(work, func(path string, _ os.DirEntry, _ error) error { return os.Lchown(path, user, user) })
			if c.foreign != "" {
				os.Chown(filepath.Join(work, c.foreign), user, group)
			}
			cmd := exec.Command(exe)
			cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "SANDBOXMCP_TEST_ROLE=propose", "SANDBOXMCP_TEST_WORKSPACE=" + work,
				"SANDBOXMCP_TEST_STATE=" + dir + "/state"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user, Groups: []uint32{group}}}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "ok <nil> ") ||
				strings.Contains(string(out), c.copied+", whose owner") != (c.copied != "") {
				t.Errorf("got %s%v", out, err)
			}
			for _, want := range []string{"file false\n", "dir false\n", "dir/new false\n", "dir/old true\n", "dir/other false\n"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("got %s, without %s", out, want)
				}
			}
		})
	}
	t.Run("root's", func(t *testing.T) {
		os.Chown(filepath.Join(work, "file"), group, group)
		os.Chmod(filepath.Join(work, "file"), 0o666)
		s, err := newBackend(t, Config{}).Start(t.Context(), backends.Spec{ID: "test", Language: "shell",
			Workspace: backends.Mount{Host: work, Propose: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if got := runScript(t, s.(*Sandbox), "echo more >>file && rm -r dir && stat -c '%u %U' . file"); got != "1000 sandbox\n65534 nobody\n" {
			t.Errorf("got %q", got)
		}
	})
}

// TestSwap checks ID maps in which two IDs are swapped.
func TestSwap(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		want string
	}{
		{0, 3, "0 3 1\n1 1 2\n3 0 1\n4 4 4294967291\n"},
		{1000, 1001, "0 0 1000\n1000 1001 1\n1001 1000 1\n1002 1002 4294966293\n"},
		{4294967294, 5, "0 0 5\n5 4294967294 1\n6 6 4294967288\n4294967294 5 1\n"},
		{7, 7, "0 0 7\n7 7 1\n8 8 4294967287\n"},
	} {
		if got := swappedMap(c.a, c.b); got != c.want {
			t.Errorf("swappedMap(%d, %d) = %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

// BenchmarkProposed starts a sandbox that changes ten files in a directory of 100,000, and one that works in an
// empty directory.
func BenchmarkProposed(b *testing.B) {
	large, empty := b.TempDir(), b.TempDir()
	for i := range 100_000 {
		dir := filepath.Join(large, fmt.Sprint(i/1000), fmt.Sprint(i/50%20))
		if i%50 == 0 {
			os.MkdirAll(dir, 0o755)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct{ name, dir, script string }{{"empty", empty, ":"},
		{"large", large, "for ((i = 0; i < 100; i += 10)); do echo x >$i/3/${i}150; done"}} {
		b.Run(c.name, func(b *testing.B) {
			backend := newBackend(b, Config{})
			for b.Loop() {
				s, err := backend.Start(b.Context(), backends.Spec{ID: "bench", Language: "shell",
					Workspace: backends.Mount{Host: c.dir, Propose: true}})
				if err != nil {
					b.Fatal(err)
				}
				s.Exec(b.Context(), backends.Command{Args: []string{"bash", "-c", c.script}}, backends.Streams{})
				if err := s.Files().Changes(b.Context(), func(backends.Change) error { return nil }); err != nil {
					b.Error(err)
				}
				s.Close()
			}
		})
	}
}
