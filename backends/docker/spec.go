package docker

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// containerConfig is the part of a container that an image can influence: each field that an image has is set.
func containerConfig(c container.Container) *api.Config {
	return &api.Config{
		Image:       c.Image,
		Hostname:    c.Hostname,
		User:        c.User,
		Entrypoint:  c.Args, // with one of its own, a container does not take the image's command
		Env:         environment(c.Env),
		Labels:      c.Labels,
		WorkingDir:  "/",
		Healthcheck: &api.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGKILL", // the image's could be one that is ignored, and hold up a daemon that stops
		AttachStdin: c.Stdin, AttachStdout: c.Stdin, AttachStderr: c.Stdin,
		OpenStdin: c.Stdin,
		StdinOnce: c.Stdin, // when who is attached goes, its input ends
	}
}

// environment leaves out variables without a value, also if the image has them: the engine removes a name alone.
// HOSTNAME is the engine's.
func environment(env []string) []string {
	list := []string{"HOSTNAME"}
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); value == "" {
			kv = name
		}
		list = append(list, kv)
	}
	return list
}

// hostConfig is the part that only the engine decides. A field that is not set has the engine's default, which is the
// closed one.
func (l *link) hostConfig(c container.Container) *api.HostConfig {
	no := false
	security := []string{"no-new-privileges"}
	if c.Seccomp != "" {
		security = append(security, "seccomp="+c.Seccomp)
	}
	h := &api.HostConfig{
		AutoRemove:     true,
		NetworkMode:    "none",
		DNS:            loopback,
		DNSOptions:     []string{"timeout:1", "attempts:1"},
		DNSSearch:      []string{"."}, // none: otherwise the host's
		CapDrop:        []string{"ALL"},
		SecurityOpt:    security,
		ReadonlyRootfs: true,
		Tmpfs:          tmpfs(c),
		ShmSize:        c.Shm,
		Mounts:         l.mounts(c.Binds),
		IpcMode:        api.IPCModePrivate,
		CgroupnsMode:   api.CgroupnsModePrivate,
		LogConfig:      api.LogConfig{Type: "none"},
		Init:           &no,
		MaskedPaths: append([]string{ // those of Docker, which a list of our own replaces
			"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
			"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
		}, c.Masked...),
		Sysctls:   c.Sysctls,
		Resources: l.resources(c.Resources),
	}
	h.Ulimits, h.DeviceRequests = ulimits(int64(c.Files)), gpuRequests(c.GPUs)
	return h
}

// resources converts limits for the engine. Zero stays zero, which means none when a container is made, and no change
// when it runs.
func (l *link) resources(r container.Resources) api.Resources {
	// Memory and swap together are the same as memory: so there is no swap.
	a := api.Resources{Memory: r.Memory, MemorySwap: r.Memory}
	if r.PIDs > 0 {
		a.PidsLimit = &r.PIDs
	}
	// More CPUs than there are, or any where the kernel can't count them, is an error for the engine.
	if r.CPU > 0 && l.info.CPUCfsQuota && l.info.CPUCfsPeriod && l.info.CgroupDriver != "none" {
		const least = 1e7 // billionths of a core; less the kernel does not take
		a.NanoCPUs = max(least, int64(r.CPU*1e9))
		if limit := int64(l.info.NCPU) * 1e9; limit > 0 {
			a.NanoCPUs = min(a.NanoCPUs, limit)
		}
	}
	return a
}

// ulimits are the limits of each process, and of all of a user. There are no core files: 1 byte is the kernel's word
// for none, also where core_pattern is a pipe.
func ulimits(files int64) []*api.Ulimit {
	processes := int64(container.Processes())
	return []*api.Ulimit{{Name: "core", Soft: 1, Hard: 1}, {Name: "nproc", Soft: processes, Hard: processes}, {Name: "nofile", Soft: files, Hard: files}}
}

// gpuRequests requests graphics processors from whatever driver the engine has for them.
func gpuRequests(which []string) []api.DeviceRequest {
	if len(which) == 0 {
		return nil
	}
	r := api.DeviceRequest{Capabilities: [][]string{{"gpu"}}, DeviceIDs: which}
	if slices.Contains(which, "all") {
		r.Count, r.DeviceIDs = -1, nil
	}
	return []api.DeviceRequest{r}
}

// loopback is the address of a sandbox's DNS.
var loopback = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}

// inodes is how many files a file system in memory may have, each of which costs the kernel memory that
// Size does not count. The process backend has the same.
const inodes = "nr_inodes=256k"

// tmpfs are the file systems in memory, as mount options by path: those that belong to the user, and those that cover
// the image's volumes and the paths that no program may see.
func tmpfs(c container.Container) map[string]string {
	uid, gid, _ := strings.Cut(c.User, ":")
	m := map[string]string{}
	for _, t := range c.Tmpfs {
		options := fmt.Sprintf("size=%d,mode=%o,%s,nosuid,nodev", t.Size, t.Mode, inodes)
		if uid != "" && gid != "" {
			options += ",uid=" + uid + ",gid=" + gid
		}
		if t.Exec {
			options += ",exec"
		}
		m[path.Clean(t.Path)] = options
	}
	ours := slices.AppendSeq([]string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}, maps.Keys(m)) // the first are the engine's, in fact
	for _, b := range c.Binds {
		ours = append(ours, path.Clean(b.Inside))
	}
	for _, v := range slices.Concat(c.Covers, c.Volumes) {
		if v = path.Clean(v); !slices.Contains(ours, v) {
			m[v] = cover(v, ours)
		}
	}
	return m
}

// cover returns the options of an empty file system over a volume. Where one of our mounts lies below it, the runtime
// has to make a directory for that, so it can't be read-only; but it belongs to root, and nobody else may write.
func cover(volume string, ours []string) string {
	const options = "size=4k,nr_inodes=64,mode=555,nosuid,nodev,noexec"
	if slices.ContainsFunc(ours, func(p string) bool { return paths.Below(p, volume) }) {
		return options
	}
	return options + ",ro"
}

// mounts are the binds of the host's paths. An engine since 25 makes a directory read-only with everything that is
// mounted below it, and must not fall back to less; before, only those mounts are that are binds of their own.
func (l *link) mounts(binds []container.Bind) []mount.Mount {
	var all []mount.Mount
	for _, b := range binds {
		m := mount.Mount{Source: b.Host, Target: b.Inside, ReadOnly: !b.Write}
		if strings.HasPrefix(b.Host, "/") {
			m.Type = mount.TypeBind
			m.BindOptions = &mount.BindOptions{Propagation: mount.PropagationRPrivate}
			m.BindOptions.ReadOnlyForceRecursive = !b.Write && l.canMountRecursively()
		} else {
			m.Type = mount.TypeVolume
			m.VolumeOptions = &mount.VolumeOptions{NoCopy: true}
		}
		all = append(all, m)
	}
	return all
}

// canMountRecursively reports whether the engine and its kernel (mount_setattr, 5.12) can make a whole tree of mounts read-only.
func (l *link) canMountRecursively() bool {
	var major, minor int
	n, _ := fmt.Sscanf(l.info.KernelVersion, "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 12) && versions.GreaterThanOrEqualTo(l.api.ClientVersion(), "1.44")
}
