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

// containerConfig returns the settings that an image could override: each field that an image can set is set.
func containerConfig(c container.Container) *api.Config {
	return &api.Config{
		Image:       c.Image,
		Hostname:    c.Hostname,
		User:        c.User,
		Entrypoint:  c.Args, // an entrypoint set here makes Docker ignore the image's command
		Env:         environment(c.Env),
		Labels:      c.Labels,
		WorkingDir:  "/",
		Healthcheck: &api.HealthConfig{Test: []string{"NONE"}},
		StopSignal:  "SIGKILL", // an image could name a signal that is ignored, which delays a daemon's shutdown
		AttachStdin: c.Stdin, AttachStdout: c.Stdin, AttachStderr: c.Stdin,
		OpenStdin: c.Stdin,
		StdinOnce: c.Stdin, // input ends when the attached client disconnects
	}
}

// environment leaves out variables without a value: the engine removes a variable whose name stands alone, also the
// image's. HOSTNAME is the engine's.
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

// hostConfig returns the settings that an image can't influence. An unset field has the engine's default, the
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
		DNSSearch:      []string{"."}, // "." is an empty search list; without it the engine copies the host's
		CapDrop:        []string{"ALL"},
		SecurityOpt:    security,
		ReadonlyRootfs: true,
		Tmpfs:          tmpfsMounts(c),
		ShmSize:        c.Shm,
		Mounts:         l.mounts(c.Binds),
		IpcMode:        api.IPCModePrivate,
		CgroupnsMode:   api.CgroupnsModePrivate,
		LogConfig:      api.LogConfig{Type: "none"},
		Init:           &no,
		MaskedPaths: append([]string{ // Docker's own, which our list replaces
			"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug",
			"/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
		}, c.Masked...),
		Sysctls:   c.Sysctls,
		Resources: l.resources(c.Resources),
	}
	h.Ulimits, h.DeviceRequests = ulimits(int64(c.Files)), gpuRequests(c.GPUs)
	return h
}

// resources converts limits for the engine. Zero stays zero: no limit at creation, no change of a running
// container.
func (l *link) resources(r container.Resources) api.Resources {
	// Memory plus swap equals memory, so there is no swap.
	a := api.Resources{Memory: r.Memory, MemorySwap: r.Memory}
	if r.PIDs > 0 {
		a.PidsLimit = &r.PIDs
	}
	// The engine refuses more CPUs than the machine has, and any CPU limit where the kernel can't count CPU time.
	if r.CPU > 0 && l.info.CPUCfsQuota && l.info.CPUCfsPeriod && l.info.CgroupDriver != "none" {
		const least = 1e7 // billionths of a core; the kernel accepts no less
		a.NanoCPUs = max(least, int64(r.CPU*1e9))
		if limit := int64(l.info.NCPU) * 1e9; limit > 0 {
			a.NanoCPUs = min(a.NanoCPUs, limit)
		}
	}
	return a
}

// ulimits returns the limits of each process, and of all processes of a user. The core file limit is 1 byte, since
// the kernel writes none at that size, also where core_pattern is a pipe.
func ulimits(files int64) []*api.Ulimit {
	processes := int64(container.Processes())
	return []*api.Ulimit{{Name: "core", Soft: 1, Hard: 1}, {Name: "nproc", Soft: processes, Hard: processes},
		{Name: "nofile", Soft: files, Hard: files}}
}

// gpuRequests requests graphics processors from any driver that the engine has for them.
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

// inodes limits the files of an in-memory file system: each costs kernel memory that Size does not count. The
// process backend has the same limit.
const inodes = "nr_inodes=256k"

// tmpfsMounts returns the in-memory file systems, as mount options by path: those that belong to the user, and those that
// cover the image's volumes and hidden paths.
func tmpfsMounts(c container.Container) map[string]string {
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
	ours := slices.AppendSeq([]string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}, maps.Keys(m)) // the first three belong to the engine
	for _, b := range c.Binds {
		ours = append(ours, path.Clean(b.Inside))
	}
	for _, v := range slices.Concat(c.Covers, c.Volumes) {
		if v = path.Clean(v); !slices.Contains(ours, v) {
			m[v] = coverOptions(v, ours)
		}
	}
	return m
}

// coverOptions returns the options of an empty file system over a volume. If one of our mounts lies below it, the runtime
// has to make a directory for that, so the file system can't be read-only; but root owns it, and nobody else may
// write.
func coverOptions(volume string, ours []string) string {
	const options = "size=4k,nr_inodes=64,mode=555,nosuid,nodev,noexec"
	if slices.ContainsFunc(ours, func(p string) bool { return paths.Below(p, volume) }) {
		return options
	}
	return options + ",ro"
}

// mounts returns the binds of the host's paths. Engines since version 25 make a directory read-only including all
// mounts below it, and must not fall back to less; older ones do so only for mounts that are binds of their own.
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

// canMountRecursively reports whether the engine and its kernel (mount_setattr, 5.12) can make a whole mount tree
// read-only.
func (l *link) canMountRecursively() bool {
	var major, minor int
	n, _ := fmt.Sscanf(l.info.KernelVersion, "%d.%d", &major, &minor)
	return n == 2 && (major > 5 || major == 5 && minor >= 12) && versions.GreaterThanOrEqualTo(l.api.ClientVersion(), "1.44")
}
