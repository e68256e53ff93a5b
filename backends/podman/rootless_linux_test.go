package podman

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestRootless runs TestAsUser as a user with subordinate ids.
func TestRootless(t *testing.T) {
	dir := newStore(t)
	u := subordinateUser(t)
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"test": self, "guest": program(t)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^TestAsUser$", "-test.v")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "PATH=" + os.Getenv("PATH"), "PODMAN_TEST_USER=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	out, err := cmd.CombinedOutput()
	// Podman holds a user's namespace open with a process that ends with the user's session.
	if data, err := os.ReadFile(filepath.Join(dir, "libpod", "tmp", "pause.pid")); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(data))); err == nil && pid > 1 {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("--- SKIP")) {
		hosttest.SkipMissing(t, "rootless", "Podman can't run here for an ordinary user")
	}
}

func subordinateUser(t *testing.T) *user.User {
	t.Helper()
	data, _ := os.ReadFile("/etc/subuid")
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(line, ":")
		if u, err := user.Lookup(name); err == nil {
			hosttest.Program(t, "newuidmap")
			return u
		}
	}
	hosttest.SkipMissing(t, "rootless", "no user has subordinate ids in /etc/subuid")
	return nil
}

// TestAsUser checks an ordinary user's containers.
func TestAsUser(t *testing.T) {
	dir := os.Getenv("PODMAN_TEST_USER")
	if dir == "" {
		t.Skip("only a part of TestRootless")
	}
	e := New(Config{Service: []string{"podman", "--root", dir + "/root", "--runroot", dir + "/run"}, Dir: dir + "/state"}).(*Engine)
	t.Cleanup(func() { e.Close() })
	info, err := e.Info(t.Context())
	if err != nil {
		t.Skip(err)
	}
	if !info.Rootless || !info.UserNS || !info.Local || info.Limits && !info.CgroupV2 {
		t.Errorf("got %+v", info)
	}
	binary, err := os.ReadFile(filepath.Join(dir, "guest"))
	if err != nil {
		t.Fatal(err)
	}
	archive := pack(t, map[string][]byte{"guest": binary, "Containerfile": []byte("FROM scratch\nCOPY guest /guest\n")})
	if err := e.Build(t.Context(), image, bytes.NewReader(archive), nil, nil); err != nil {
		t.Skip(err)
	}
	i, err := e.Image(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	host := filepath.Join(dir, "mounted")
	if err := os.Mkdir(host, 0o700); err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	for _, test := range []struct {
		user  string
		keep  bool
		write string
	}{{"1000:1000", false, "permission denied"}, {own, true, "yes"}} {
		c := basicContainer(i.ID, "facts")
		c.User, c.KeepID = test.user, test.keep
		c.Binds = []container.Bind{{Host: host, Inside: "/mounted", Write: true}}
		c.Tmpfs = []container.Tmpfs{{Path: "/workspace", Size: 1 << 20, Mode: 0o1777}}
		c.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"}
		out, stderr, exit := run(t, e, c)
		if exit.Code != 0 {
			t.Fatalf("%+v: %s", exit, stderr)
		}
		f := unmarshal(t, out)
		if f["uid"]+":"+f["gid"] != test.user || f["write /mounted"] != test.write || f["write /workspace"] != "yes" ||
			f["write /"] != "read-only file system" {
			t.Errorf("%s: writes into the mounted directory: %q, the workspace: %q, the root: %q", f["uid"], f["write /mounted"],
				f["write /workspace"], f["write /"])
		}
		for _, want := range []string{"CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
			if !strings.Contains(f["/proc/self/status"], want) {
				t.Errorf("status has no %q", want)
			}
		}
		os.Remove(filepath.Join(host, "file"))
	}
	sleeper := basicContainer(i.ID, "sleep")
	sleeper.User = "1000:1000"
	c := create(t, e, sleeper)
	exits := waitFor(t, e, c)
	start(t, e, c)
	kill(t, e, c)
	if exit := <-exits; exit.Code != 137 {
		t.Errorf("killed: %+v", exit)
	}
}
