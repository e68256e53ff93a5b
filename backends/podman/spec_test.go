package podman

import (
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// TestResources checks that only enforceable limits are sent.
func TestResources(t *testing.T) {
	var rootless, user hostInfo
	rootless.Host.Security.Rootless = true
	rootless.Host.CgroupVersion = "v1"
	rootless.Host.CgroupControllers = limitControllers
	user = rootless
	user.Host.CgroupVersion, user.Host.CgroupManager = "v2", "systemd"
	user.Host.CgroupControllers = []string{"memory", "pids"}
	all := container.Resources{Memory: 1 << 20, PIDs: 5, CPU: 0.001}
	if r := (facts{controllers: rootless.limits()}).resources(all); r != nil {
		t.Errorf("an ordinary user on cgroup v1: %+v", r)
	}
	r := facts{controllers: user.limits()}.resources(all)
	if r == nil || r.CPU != nil || *r.Memory.Swap != 1<<20 || r.Pids.Limit != 5 {
		t.Errorf("an ordinary user without cpu: %+v", r)
	}
	if r := (facts{controllers: limitControllers}).resources(all); r == nil || *r.CPU.Quota != 1000 {
		t.Errorf("the least quota: %+v", r)
	}
}

// TestMounts checks that the image's volumes are covered unless another mount is there.
func TestMounts(t *testing.T) {
	s, err := specFor(container.Container{
		Args: []string{"/x"}, Volumes: []string{"/data/", "/workspace"},
		Tmpfs: []container.Tmpfs{{Path: "/workspace", Size: 5, Mode: 0o700}},
		Binds: []container.Bind{{Host: "/a", Inside: "/in"}, {Host: "/b", Inside: "/out", Write: true}, {Host: "name", Inside: "/vol"}},
	}, facts{})
	if err != nil {
		t.Fatal(err)
	}
	has := func(path string, options ...string) {
		t.Helper()
		n := 0
		for _, m := range s.Mounts {
			if m.Destination != path {
				continue
			}
			n++
			for _, o := range options {
				if !slices.Contains(m.Options, o) {
					t.Errorf("%s: no %s in %v", path, o, m.Options)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s is mounted %d times", path, n)
		}
	}
	has("/data", "ro", "noexec", "nosuid", "nodev", "notmpcopyup")
	has("/workspace", "rw", "size=5", "mode=0700", "noexec")
	has("/in", "ro", "rbind", "nosuid", "nodev")
	has("/out", "rw", "rbind")
	has(secrets, "ro")
	if len(s.Volumes) != 1 || s.Volumes[0].Name != "name" || !slices.Contains(s.Volumes[0].Options, "ro") {
		t.Errorf("volumes: %+v", s.Volumes)
	}
	if _, err := specFor(container.Container{}, facts{}); err == nil {
		t.Error("a container without a program was made")
	}
}
