package podman

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// TestClosed checks from inside all promises of Container, with an image whose settings interfere.
func TestClosed(t *testing.T) {
	e := testEngine(t)
	id := withImage(t, e)
	host := t.TempDir()
	if err := os.Chmod(host, 0o777); err != nil {
		t.Fatal(err)
	}
	c := basicContainer(id, "facts")
	c.Env = []string{"MINE=yes"}
	c.Tmpfs = []container.Tmpfs{{Path: "/workspace", Size: 1 << 20, Mode: 0o1777, Exec: true}, {Path: "/tmp", Size: 2 << 20, Mode: 0o700}}
	c.Shm = 3 << 20
	c.Volumes = []string{"/data"}
	c.Binds = []container.Bind{{Host: host, Inside: "/mounted"}}
	c.Sysctls = map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"}
	c.Seccomp = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["sync"],"action":"SCMP_ACT_ERRNO","errnoRet":95}]}`
	out, stderr, exit := run(t, e, c)
	if exit.Code != 0 {
		t.Fatalf("exit %+v: %s", exit, stderr)
	}
	f := unmarshal(t, out)
	for name, want := range map[string]string{
		"uid": "1879048195", "gid": "1879048195", "pid": "1", "host": "sandbox", "dir": "/",
		"/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
		"/etc/hosts":       "127.0.0.1 localhost\n::1 localhost\n",
		"/proc/sys/net/ipv4/ip_unprivileged_port_start": "0\n",
		"write /":            "read-only file system",
		"write /data":        "read-only file system",
		"write /run":         "read-only file system",
		"write /run/secrets": "read-only file system",
		"write /mounted":     "read-only file system",
		"write /workspace":   "yes",
		"write /tmp":         "yes", // it belongs to the user
		"sync":               "operation not supported",
	} {
		if f[name] != want {
			t.Errorf("%s: got %q, want %q", name, f[name], want)
		}
	}
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapPrm:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(f["/proc/self/status"], want) {
			t.Errorf("status has no %q:\n%s", want, f["/proc/self/status"])
		}
	}
	if strings.Contains(f["env"], "FROM_IMAGE") || !strings.Contains(f["env"], "MINE=yes") {
		t.Errorf("environment: %s", f["env"])
	}
	if n := strings.Count(f["/proc/net/dev"], ":"); n != 1 {
		t.Errorf("network devices: %s", f["/proc/net/dev"])
	}
	for _, want := range []string{" /workspace rw,nosuid,nodev,relatime", " /tmp rw,nosuid,nodev,noexec,relatime",
		" /mounted ro,nosuid,nodev,", "size=1024k", "size=2048k,mode=700", "size=3072k"} {
		if !strings.Contains(f["/proc/self/mountinfo"], want) {
			t.Errorf("mounts have no %q:\n%s", want, f["/proc/self/mountinfo"])
		}
	}
	for _, want := range []string{"Max open files            256                  256", "Max core file size        1                    1"} {
		if !strings.Contains(f["/proc/self/limits"], want) {
			t.Errorf("limits have no %q:\n%s", want, f["/proc/self/limits"])
		}
	}
	checkLimits(t, f, "67108864", "50", "50000")
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "sandboxmcp-seccomp-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func checkLimits(t *testing.T, f map[string]string, memory, pids, quota string) {
	t.Helper()
	want := map[string]string{
		"/sys/fs/cgroup/memory/memory.limit_in_bytes": memory, "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": memory,
		"/sys/fs/cgroup/pids/pids.max": pids, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": quota,
	}
	if !strings.HasPrefix(f["/sys/fs/cgroup/memory.max"], "error") {
		want = map[string]string{"/sys/fs/cgroup/memory.max": memory, "/sys/fs/cgroup/pids.max": pids, "/sys/fs/cgroup/cpu.max": quota +
			" 100000"}
	}
	for name, value := range want {
		if strings.HasSuffix(name, "memsw.limit_in_bytes") && strings.HasPrefix(f[name], "error") {
			continue // a kernel without swap accounting
		}
		if got := strings.TrimSpace(f[name]); got != value {
			t.Errorf("%s: got %s, want %s", name, got, value)
		}
	}
}
