package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// report is the guest program's description of its surroundings.
type report struct {
	Env, Args, Interfaces []string
	UID, GID, PID         int
	Groups                []int
	Dir, Host, Port       string
	Write                 map[string]string
	Sizes                 map[string][2]uint64
	Status                string `json:"/proc/self/status"`
	Mounts                string `json:"/proc/self/mountinfo"`
	Limits                string `json:"/proc/self/limits"`
	Resolv                string `json:"/etc/resolv.conf"`
	Cgroup                string `json:"/proc/self/cgroup"`
	Binds                 string `json:"/mounted/file"`
	Net                   string `json:"ns:net"`
	IPC                   string `json:"ns:ipc"`
	PIDs                  string `json:"ns:pid"`
	UTS                   string `json:"ns:uts"`
	Mnt                   string `json:"ns:mnt"`
	CgroupNS              string `json:"ns:cgroup"`
}

// inspectInside runs guest in container c and returns its report.
func inspectInside(t *testing.T, e *docker, c container.Container) report {
	t.Helper()
	out, stderr, x := run(t, e, c)
	var s report
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("guest said %q and %q, and ended with %+v: %v", out, stderr, x, err)
	}
	return s
}

// TestClosed checks that an image's own settings (user, volumes, health check, ...) change nothing.
func TestClosed(t *testing.T) {
	e := testEngine(t)
	for _, image := range []string{"guest:1", "meddling:1"} {
		t.Run(image, func(t *testing.T) {
			c := plan(t, e, image, "state", "/work/f", "/data/f", "/etc/f", "/f", "/dev/shm/f", "/proc/sys/kernel/hostname", "/sys/f", "/dev/f",
				"/mounted/file")
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), []byte("mounted"), 0o666); err != nil {
				t.Fatal(err)
			}
			c.Binds = []container.Bind{{Host: dir, Inside: "/mounted"}}
			c.Seccomp = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["chroot"],"action":"SCMP_ACT_ERRNO"}]}`
			s := inspectInside(t, e, c)

			slices.Sort(s.Env)
			path := "PATH=/image/bin"
			if image == "guest:1" {
				path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
			}
			if want := []string{"HOME=/", "OURS=1", path}; !slices.Equal(s.Env, want) {
				t.Errorf("environment: got %q, want %q", s.Env, want)
			}
			if !slices.Equal(s.Args, c.Args) || s.Dir != "/" || s.Host != "sandbox" || s.PID != 1 {
				t.Errorf("got args %q, directory %s, host %s, PID %d", s.Args, s.Dir, s.Host, s.PID)
			}
			if s.UID != 1879048200 || s.GID != 1879048200 || !slices.Equal(s.Groups, []int{1879048200}) && len(s.Groups) > 0 {
				t.Errorf("got user %d:%d with groups %v", s.UID, s.GID, s.Groups)
			}
			for _, name := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
				if !strings.Contains(s.Status, name+":\t0000000000000000\n") {
					t.Errorf("%s is not empty", name)
				}
			}
			for _, line := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
				if !strings.Contains(s.Status, line) {
					t.Errorf("no %q in %s", line, s.Status)
				}
			}
			for path, want := range map[string]string{
				"/work/f": "ok", "/dev/shm/f": "ok", "/data/f": "read-only", "/f": "read-only", "/mounted/file": "read-only",
				"/proc/sys/kernel/hostname": "read-only", "/sys/f": "", "/dev/f": "permission denied", "/etc/f": "",
			} {
				if got := s.Write[path]; !strings.Contains(got, want) || got == "" || got == "ok" && want != "ok" {
					t.Errorf("write to %s: got %q, want %q", path, got, want)
				}
			}
			if s.Binds != "mounted" {
				t.Errorf("a file of the host: got %q", s.Binds)
			}
			if !slices.Equal(s.Interfaces, []string{"lo"}) || s.Port != "open" {
				t.Errorf("network: got interfaces %q, low port %s", s.Interfaces, s.Port)
			}
			if !regexp.MustCompile(`(?m)^nameserver 127\.0\.0\.1$`).MatchString(s.Resolv) || strings.Count(s.Resolv, "nameserver") != 1 ||
				!regexp.MustCompile(`(?m)^options timeout:1 attempts:1$`).MatchString(s.Resolv) ||
				regexp.MustCompile(`(?m)^search \S`).MatchString(s.Resolv) {
				t.Errorf("resolv.conf: got %q", s.Resolv)
			}
			if s.Sizes["/work"][0] != 8<<20 || s.Sizes["/work"][1] != 256<<10 || s.Sizes["/dev/shm"][0] != 4<<20 {
				t.Errorf("sizes: got %v", s.Sizes)
			}
			if image == "meddling:1" && s.Sizes["/data"][0] > 4096 {
				t.Errorf("a volume of the image: %v bytes", s.Sizes["/data"][0])
			}
			for name, maxInodes := range map[string]uint64{"core file size": 1, "open files": 256, "processes": container.Processes()} {
				if !regexp.MustCompile(fmt.Sprintf(`(?m)^Max %s +%d +%[2]d `, name, maxInodes)).MatchString(s.Limits) {
					t.Errorf("%s are not limited to %d: %s", name, maxInodes, s.Limits)
				}
			}
			for name, got := range map[string]string{"net": s.Net, "ipc": s.IPC, "pid": s.PIDs, "uts": s.UTS, "mnt": s.Mnt, "cgroup": s.CgroupNS} {
				if host, _ := os.Readlink("/proc/self/ns/" + name); got == host || got == "" {
					t.Errorf("namespace %s: %q, the host's is %q", name, got, host)
				}
			}
			work := regexp.MustCompile(`(?m)^.* /work (\S+) .*$`).FindStringSubmatch(s.Mounts)
			if work == nil || !strings.Contains(work[1], "nosuid") || !strings.Contains(work[1], "nodev") || strings.Contains(work[1], "noexec") {
				t.Errorf("/work: got options %q", work)
			}
		})
	}
}

// TestNoVolumes checks that no volume is made, and that an image's files in its volume paths are not copied.
func TestNoVolumes(t *testing.T) {
	e := testEngine(t)
	run(t, e, plan(t, e, "meddling:1", "exit", "0"))
	l, err := e.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := volumes(t, l); len(got) != 0 {
		t.Errorf("got volumes %q", got)
	}
}

func TestCreateErrors(t *testing.T) {
	e := testEngine(t)
	c := plan(t, e, "guest:1", "exit", "0")
	create(t, e, c)
	if _, err := e.Create(t.Context(), c); err == nil || !strings.Contains(err.Error(), "already in use") {
		t.Errorf("a name that is taken: got %v", err)
	}
	list, err := e.List(t.Context(), "of="+t.Name())
	if err != nil || len(list) != 1 {
		t.Errorf("after that: got %+v, %v", list, err)
	}
	c.Image = "sha256:" + strings.Repeat("a", 64)
	if _, err := e.Create(t.Context(), c); err == nil || !strings.Contains(err.Error(), container.ErrNoImage.Error()) {
		t.Errorf("no image: got %v", err)
	}
}

func TestGPURefusal(t *testing.T) {
	e := testEngine(t)
	c := plan(t, e, "guest:1", "exit", "0")
	c.GPUs = []string{"all"}
	id := create(t, e, c)
	err := e.Start(t.Context(), id)
	if !isRefusal(err, "GPUs", "nvidia-ctk") {
		t.Errorf("got %v", err)
	}
}
