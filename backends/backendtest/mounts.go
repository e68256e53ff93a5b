//go:build linux

package backendtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// makeSharedDir makes a directory on the host that any sandbox user may enter and write to.
func makeSharedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; paths.Below(d, os.TempDir()); d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "given"), []byte("given"), 0o666); err != nil {
		t.Fatal(err)
	}
	os.Chmod(filepath.Join(dir, "given"), 0o666)
	return dir
}

// specWithMount returns the usual shell Spec with a mount.
func (b *bench) specWithMount(m backends.Mount) backends.Spec {
	spec := b.spec("shell")
	spec.Mounts = []backends.Mount{m}
	return spec
}

func (b *bench) specWithWorkspace(m backends.Mount) backends.Spec {
	spec := b.spec("shell")
	spec.Workspace = m
	return spec
}

func testMounts(t *testing.T, b *bench) {
	b.needLayer(t, backends.LayerMount)
	t.Run("read-only", func(t *testing.T) {
		dir := makeSharedDir(t)
		spec := b.specWithMount(backends.Mount{Host: dir, Inside: "/data/in"})
		o := mustExec(t, b.start(t, spec), "bash", "-c", `cat /data/in/given; cd /data/in
echo x 2>/dev/null >new; echo x 2>/dev/null >given; rm -f given 2>/dev/null; chmod 777 given 2>/dev/null; mv given other 2>/dev/null; mkdir d 2>/dev/null; ln given /workspace/l 2>/dev/null; touch given 2>/dev/null; ls`)
		if o.Stdout != "givengiven\n" {
			t.Errorf("stdout %q, stderr %q", o.Stdout, o.Stderr)
		}
		checkContent(t, dir, "given", "given")
		// It must be a read-only mount, not only denied by permissions and Landlock.
		if o := mustExec(t, b.start(t, spec), "bash", "-c", "grep ' /data/in ro,' /proc/self/mountinfo"); o.Stdout == "" {
			t.Error("the mount itself is writable")
		}
	})
	t.Run("writable", func(t *testing.T) {
		dir := makeSharedDir(t)
		spec := b.specWithMount(backends.Mount{Host: dir, Inside: "/data/out", Write: true})
		mustExec(t, b.start(t, spec), "bash", "-ec", `cat /data/out/given; echo new >/data/out/new; echo changed >/data/out/given; mkdir /data/out/d`).mustSucceed(t)
		checkContent(t, dir, "new", "new\n")
		checkContent(t, dir, "given", "changed\n")
	})
	t.Run("a file", func(t *testing.T) {
		dir := makeSharedDir(t)
		spec := b.specWithMount(backends.Mount{Host: filepath.Join(dir, "given"), Inside: "/opt/config/given.txt"})
		o := mustExec(t, b.start(t, spec), "bash", "-c", `cat /opt/config/given.txt; ls /opt/config; echo x 2>/dev/null >/opt/config/given.txt`)
		if o.Stdout != "givengiven.txt\n" {
			t.Errorf("stdout %q, stderr %q", o.Stdout, o.Stderr)
		}
		checkContent(t, dir, "given", "given")
	})
	t.Run("links in it lead nowhere else", func(t *testing.T) {
		dir, other := makeSharedDir(t), makeSharedDir(t)
		for name, to := range map[string]string{"abs": filepath.Join(other, "given"), "shadow": "/etc/shadow",
			"up": "../../../../../../etc/shadow", "directory": other} {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		spec := b.specWithMount(backends.Mount{Host: dir, Inside: "/data", Write: true})
		o := mustExec(t, b.start(t, spec), "bash", "-c", `cd /data; cat abs shadow up directory/given 2>/dev/null; echo owned 2>/dev/null >abs; echo owned 2>/dev/null >directory/given; ls -d ..`)
		if o.Stdout != "..\n" {
			t.Errorf("got %q", o.Stdout)
		}
		checkContent(t, other, "given", "given")
	})
	t.Run("a mount below the mount is read-only too", func(t *testing.T) {
		spec := b.specWithMount(backends.Mount{Host: "/dev", Inside: "/hostdev"})
		s, err := b.backend.Start(t.Context(), spec)
		if err != nil {
			t.Skip("refused: ", err)
		}
		defer s.Close()
		o := mustExec(t, s, "bash", "-c", "echo x 2>/dev/null >/hostdev/shm/owned && echo wrote; cat /hostdev/kmsg 2>/dev/null | head -c 1; "+
			"head -c 1 /hostdev/vda 2>/dev/null")
		if o.Stdout != "" {
			t.Errorf("got %q", o.Stdout)
		}
		os.Remove("/dev/shm/owned")
	})
	t.Run("files with rights of their own", func(t *testing.T) { testRights(t, b) })
	t.Run("what is mounted below", func(t *testing.T) { testSubmounts(t, b) })
	t.Run("workspace", func(t *testing.T) { testWorkspace(t, b) })
	t.Run("refused", func(t *testing.T) {
		dir := makeSharedDir(t)
		for name, m := range map[string]backends.Mount{
			"not there":       {Host: filepath.Join(dir, "nothing"), Inside: "/data"},
			"relative host":   {Host: "given", Inside: "/data"},
			"relative inside": {Host: dir, Inside: "data"},
			"root":            {Host: dir, Inside: "/"},
			"over /proc":      {Host: dir, Inside: "/proc"},
			"dots":            {Host: dir, Inside: "/data/../proc/self"},
			"no inside":       {Host: dir},
			"no host":         {Inside: "/data"},
			"NUL":             {Host: dir, Inside: "/data\x00x"},
		} {
			s, err := b.backend.Start(t.Context(), b.specWithMount(m))
			if err == nil {
				// An error of the first command is accepted, too.
				_, err = tryExec(t, s, backends.Command{Args: []string{"true"}}, nil)
				s.Close()
			}
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

// testRights mounts, as root, files with set-user-ID bits or capabilities: the kernel keeps these when a program
// writes through a mapping.
func testRights(t *testing.T, b *bench) {
	for name, mode := range map[string]os.FileMode{"set-user-ID": os.ModeSetuid, "set-group-ID": os.ModeSetgid} {
		dir := makeSharedDir(t)
		file := filepath.Join(dir, "a/b/tool")
		os.MkdirAll(filepath.Dir(file), 0o755)
		os.WriteFile(file, []byte("tool"), 0o755)
		if err := os.Chmod(file, mode|0o777); err != nil {
			t.Fatal(err)
		}
		mounted, workspace := b.specWithMount(backends.Mount{Host: dir, Inside: "/data", Write: true}),
			b.specWithWorkspace(backends.Mount{Host: dir, Write: true})
		for _, spec := range []backends.Spec{mounted, workspace} {
			err := b.startRefused(t, spec)
			refusal, is := errors.AsType[*backends.Refusal](err)
			if named := is && strings.Contains(refusal.Reason, file); named != (os.Geteuid() == 0) {
				t.Errorf("%s: got %v, want a refusal that names the file if it is root's", name, err)
			}
		}
		mounted.Mounts[0].Write = false
		mustExec(t, b.start(t, mounted), "bash", "-c", "cat /data/a/b/tool").mustSucceed(t)
	}
	dir := makeSharedDir(t)
	if err := os.Chmod(dir, os.ModeSetgid|0o777); err != nil { // a project's directory may set its files' group
		t.Fatal(err)
	}
	spec := b.specWithMount(backends.Mount{Host: dir, Inside: "/data", Write: true})
	mustExec(t, b.start(t, spec), "bash", "-c", "echo x >/data/given").mustSucceed(t)
}

// testSubmounts shows directories with host mounts below: programs see these mounts or nothing, and never the files
// below them.
func testSubmounts(t *testing.T, b *bench) {
	dir := makeSharedDir(t)
	mount := mounter(t)
	for _, name := range []string{"m", "m2", "closed", "proc"} {
		os.Mkdir(filepath.Join(dir, name), 0o777)
		os.Chmod(filepath.Join(dir, name), 0o777)
		os.WriteFile(filepath.Join(dir, name, "hidden"), []byte("hidden"), 0o666)
	}
	mount("tmpfs", filepath.Join(dir, "m"), false)
	os.WriteFile(filepath.Join(dir, "m/shown"), []byte("shown"), 0o666)
	os.Chmod(filepath.Join(dir, "m/shown"), 0o666)
	os.Mkdir(filepath.Join(dir, "m/deep"), 0o755)
	mount("tmpfs", filepath.Join(dir, "m/deep"), false)
	mount("tmpfs", filepath.Join(dir, "closed"), true)
	mount("proc", filepath.Join(dir, "proc"), false)
	if b.o.Engine != 0 {
		showMounts(t, dir, b.o.Engine)
	}
	mounted, workspace := b.specWithMount(backends.Mount{Host: dir, Inside: "/data"}), b.specWithWorkspace(backends.Mount{Host: dir})
	for _, write := range []bool{false, true} {
		mounted.Mounts[0].Write, workspace.Workspace.Write = write, write
		for at, spec := range map[string]backends.Spec{"/data": mounted, "/workspace": workspace} {
			o := mustExec(t, b.start(t, spec), "bash", "-c", `cd "$0"; cat */hidden; cat m/shown; ls proc; (echo x >closed/new); ls m2`, at)
			if o.Stdout != "hiddenshownhidden\n" { // m2 has no mount
				t.Errorf("%s, writable %v: got %q, %q", at, write, o.Stdout, o.Stderr)
			}
			if !write {
				mustExec(t, b.start(t, spec), "bash", "-c", `cd "$0"; (echo x >m/new); (echo x >m/shown); (echo x >m/deep/new)`, at)
			}
		}
	}
	for _, name := range []string{"m/new", "m/deep/new", "closed/new"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was made", name)
		}
	}
	checkContent(t, dir, "m/shown", "shown")
	mounted.Mounts[0] = backends.Mount{Host: filepath.Join(dir, "proc"), Inside: "/data"}
	if b.startRefused(t, mounted) == nil {
		t.Error("the host's processes can be shown")
	}
}

func testWorkspace(t *testing.T, b *bench) {
	t.Run("of the host, writable", func(t *testing.T) {
		dir := makeSharedDir(t)
		spec := b.specWithWorkspace(backends.Mount{Host: dir, Write: true})
		s := b.start(t, spec)
		mustExec(t, s, "bash", "-ec", `[ "$PWD" = /workspace ]; [ "$(cat given)" = given ]; echo new >new`).mustSucceed(t)
		checkContent(t, dir, "new", "new\n")
		if files := filesOf(t, s); files["new"].Size != 4 {
			t.Errorf("listed %v", files)
		}
	})
	t.Run("of the host, looked at", func(t *testing.T) {
		// Reading a project does not change it, even if its owner has closed directories.
		dir := makeSharedDir(t)
		for path, mode := range map[string]os.FileMode{"sealed": 0, "readable": 0o444} {
			os.WriteFile(filepath.Join(dir, path), []byte("x"), 0o600)
			os.Chmod(filepath.Join(dir, path), mode)
		}
		os.Mkdir(filepath.Join(dir, "sealed-directory"), 0)
		spec := b.specWithWorkspace(backends.Mount{Host: dir, Write: true})
		for _, f := range filesOf(t, b.start(t, spec)) {
			readContent(t, f)
		}
		for path, want := range map[string]os.FileMode{"sealed": 0, "sealed-directory": os.ModeDir, "readable": 0o444, "given": 0o666} {
			if fi, err := os.Stat(filepath.Join(dir, path)); err != nil || fi.Mode() != want {
				t.Errorf("%s has mode %v now, want %v, %v", path, fi.Mode(), want, err)
			}
		}
	})
	t.Run("of the host, read-only", func(t *testing.T) {
		dir := makeSharedDir(t)
		spec := b.specWithWorkspace(backends.Mount{Host: dir})
		s := b.start(t, spec)
		o := mustExec(t, s, "bash", "-c", `cat given; echo x 2>/dev/null >given; echo x 2>/dev/null >new; ls`)
		if o.Stdout != "givengiven\n" {
			t.Errorf("got %q", o.Stdout)
		}
		if err := s.Files().Put("new", 0o644, strings.NewReader("x")); err == nil {
			t.Error("put wrote to a read-only workspace")
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("the host's directory holds %v", left)
		}
	})
	t.Run("thrown away", func(t *testing.T) {
		s := b.start(t, b.spec("shell"))
		mustExec(t, s, "bash", "-c", "echo x >left-in-the-workspace").mustSucceed(t)
		s.Close()
		if o := b.shell(t, "ls -A").mustSucceed(t); o.Stdout != "" {
			t.Errorf("a new workspace holds %q", o.Stdout)
		}
	})
}

// checkContent checks a file from the host's side.
func checkContent(t *testing.T, dir, name, want string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
		t.Errorf("%s on the host: %q, want %q, %v", name, got, want, err)
	}
}
