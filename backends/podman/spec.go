package podman

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sandboxmcp/sandboxmcp/backends/container"
)

// spec is the part of Podman's SpecGenerator that we send. An older service's default for an omitted field is the
// closed one; a service ignores unknown fields.
type spec struct {
	workload
	namespaces

	Privileged   bool                  `json:"privileged"` // containers.conf can set it for all
	CapDrop      []string              `json:"cap_drop"`
	NoNewPrivs   bool                  `json:"no_new_privileges"`
	ReadOnly     bool                  `json:"read_only_filesystem"`
	ReadWriteTmp bool                  `json:"read_write_tmpfs"` // Podman's own on /tmp, /run and others
	Seccomp      string                `json:"seccomp_profile_path,omitempty"`
	Mask         []string              `json:"mask,omitempty"` // in addition to Podman's own
	ImageVolumes string                `json:"image_volume_mode"`
	ImageResolv  bool                  `json:"use_image_resolve_conf"`
	ImageHosts   bool                  `json:"use_image_hosts"` // else they are made from the host's
	Passwd       bool                  `json:"manage_password"`
	Sysctl       map[string]string     `json:"sysctl,omitempty"`
	ShmSize      int64                 `json:"shm_size,omitempty"`
	Mounts       []specs.Mount         `json:"mounts"`
	Volumes      []volume              `json:"volumes,omitempty"`
	Devices      []specs.LinuxDevice   `json:"devices,omitempty"`
	Resources    *specs.LinuxResources `json:"resource_limits,omitempty"`
	Rlimits      []specs.POSIXRlimit   `json:"r_limits"`
}

// workload is a container's command and its settings.
type workload struct {
	Name        string            `json:"name,omitempty"`
	Image       string            `json:"image"`
	Entrypoint  []string          `json:"entrypoint"`
	Command     []string          `json:"command"`
	WorkDir     string            `json:"work_dir"`
	User        string            `json:"user,omitempty"`
	Hostname    string            `json:"hostname,omitempty"`
	Env         map[string]string `json:"env"`
	UnsetEnvAll bool              `json:"unsetenvall"` // the image's
	Labels      map[string]string `json:"labels,omitempty"`
	Stdin       bool              `json:"stdin"`
	Remove      bool              `json:"remove"`
	Restart     string            `json:"restart_policy"`
	StopTimeout int               `json:"stop_timeout"`
	Systemd     string            `json:"systemd"`
	SdNotify    string            `json:"sdnotifyMode"`
	Runtime     string            `json:"oci_runtime,omitempty"`
	Log         map[string]string `json:"log_configuration"`
	Health      map[string]any    `json:"healthconfig"`
}

type namespaces struct {
	Net      namespace `json:"netns"`
	PID      namespace `json:"pidns"`
	IPC      namespace `json:"ipcns"`
	UTS      namespace `json:"utsns"`
	UserNS   namespace `json:"userns"`
	CgroupNS namespace `json:"cgroupns"`
}

type namespace struct {
	Mode string `json:"nsmode,omitempty"`
}

type volume struct {
	Name    string
	Dest    string
	Options []string
}

// gpuKind is CDI's name for NVIDIA GPUs.
const gpuKind = "nvidia.com/gpu"

// rlimits returns the limits of a container's processes. By default Podman requests 1048576 processes, which fails
// if its own limit is lower.
func rlimits(files uint64) []specs.POSIXRlimit {
	processes := container.Processes()
	return []specs.POSIXRlimit{{Type: "core", Hard: 1, Soft: 1}, {Type: "nofile", Hard: files, Soft: files},
		{Type: "nproc", Hard: processes, Soft: processes}}
}

// secrets is where Podman mounts the files named in the host's mounts.conf, such as subscription keys.
const secrets = "/run/secrets"

// specFor converts a container for Podman. No setting that it leaves to the service's configuration opens anything,
// except mounts and devices, which [refuseExtra] checks.
func specFor(c container.Container, f facts) (spec, error) {
	if len(c.Args) == 0 {
		return spec{}, fmt.Errorf("create a container: no program")
	}
	private := namespace{Mode: "private"}
	s := spec{
		workload: workload{
			Name: c.Name, Image: c.Image, Entrypoint: c.Args[:1], Command: c.Args[1:], WorkDir: "/",
			User: c.User, Hostname: c.Hostname, Env: newEnviron(c.Env), UnsetEnvAll: true, Labels: c.Labels,
			Stdin: c.Stdin, Remove: true, Restart: "no", Systemd: "false", SdNotify: "ignore", Runtime: f.runtime,
			Log:    map[string]string{"driver": "none"},
			Health: map[string]any{"Test": []string{"NONE"}},
		},
		namespaces: namespaces{Net: namespace{Mode: "none"}, PID: private, IPC: private, UTS: private, CgroupNS: private,
			UserNS: namespace{Mode: "host"}},
		CapDrop: []string{"ALL"}, NoNewPrivs: true, ReadOnly: true, ImageVolumes: "ignore",
		ImageResolv: true, ImageHosts: true,
		Mask: c.Masked, Sysctl: c.Sysctls, ShmSize: c.Shm, Resources: f.resources(c.Resources), Rlimits: rlimits(c.Files),
	}
	if c.KeepID {
		s.UserNS.Mode = "keep-id"
	}
	for _, gpu := range c.GPUs {
		s.Devices = append(s.Devices, specs.LinuxDevice{Path: gpuKind + "=" + gpu})
	}
	s.mount(c)
	return s, nil
}

// tmpfsSize returns the size and owner of a tmpfs: git, for one, works in no directory of another user. Podman
// refuses the kernel's option uid, but passes the value of size on unchanged.
func tmpfsSize(size int64, user string) string {
	uid, gid, both := strings.Cut(user, ":")
	if !both {
		return fmt.Sprintf("size=%d", size)
	}
	return fmt.Sprintf("size=%d,uid=%s,gid=%s", size, uid, gid)
}

func (s *spec) mount(c container.Container) {
	mounted := map[string]bool{}
	for _, b := range c.Binds {
		mounted[path.Clean(b.Inside)] = true
		options := []string{"nosuid", "nodev", "rprivate", "ro"}
		if b.Write {
			options[3] = "rw"
		}
		if !strings.HasPrefix(b.Host, "/") {
			s.Volumes = append(s.Volumes, volume{Name: b.Host, Dest: b.Inside, Options: append(options, "nocopy")}) // with the image's files
			continue
		}
		// Mounts below it are read-only by binds of their own: "ro" applies to the one mount alone.
		s.Mounts = append(s.Mounts, specs.Mount{Destination: b.Inside, Type: "bind", Source: b.Host, Options: append(options, "rbind")})
	}
	for _, t := range c.Tmpfs {
		mounted[path.Clean(t.Path)] = true
		options := []string{tmpfsSize(t.Size, c.User), fmt.Sprintf("mode=%04o", t.Mode), "rw", "nosuid", "nodev", "rprivate", "notmpcopyup"}
		if !t.Exec {
			options = append(options, "noexec")
		}
		s.Mounts = append(s.Mounts, specs.Mount{Destination: t.Path, Type: "tmpfs", Source: "tmpfs", Options: options})
	}
	volumes := slices.DeleteFunc(slices.Clone(c.Volumes), c.Overlaps)
	for _, p := range slices.Concat(c.Covers, volumes, []string{secrets}) {
		if p = path.Clean(p); mounted[p] {
			continue
		}
		mounted[p] = true
		s.Mounts = append(s.Mounts, specs.Mount{Destination: p, Type: "tmpfs", Source: "tmpfs",
			Options: []string{"size=4096", "mode=0555", "ro", "nosuid", "nodev", "noexec", "rprivate", "notmpcopyup"}})
	}
}

// resources returns the limits that the service can enforce; nil if it can enforce none: Podman refuses or ignores
// such a container, depending on its version.
func (f facts) resources(r container.Resources) *specs.LinuxResources {
	can := func(controller string) bool { return slices.Contains(f.controllers, controller) }
	var out specs.LinuxResources
	if r.Memory > 0 && can("memory") {
		out.Memory = &specs.LinuxMemory{Limit: &r.Memory, Swap: &r.Memory} // swap includes memory, so there is none
	}
	if r.PIDs > 0 && can("pids") {
		out.Pids = &specs.LinuxPids{Limit: r.PIDs}
	}
	if r.CPU > 0 && can("cpu") {
		const period = 100_000 // microseconds; the kernel accepts no quota below a millisecond
		out.CPU = &specs.LinuxCPU{Quota: new(max(1000, int64(math.Round(r.CPU*period)))), Period: new(uint64(period))}
	}
	if out.Memory == nil && out.Pids == nil && out.CPU == nil {
		return nil
	}
	return &out
}
