package container

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

const hostname = "sandbox"

// plan holds all decisions about a sandbox's container.
type plan struct {
	*engineState
	spec   backends.Spec // with limits filled in, and mounts with their paths inside
	image  Image
	title  string // the image's name and digest
	user   identity
	binds  []Bind   // requested mounts
	covers []string // directories in them to cover
	idle   bool     // it creates an idle container
	warm   bool     // it uses an idle container
	cold   string   // why it does not
}

// poolKey holds the properties that an idle container must share with a sandbox's plan.
type poolKey struct {
	language, image string
	limits          backends.Limits
}

// plan decides everything about the container of a sandbox except its image, and refuses impossible specifications.
func (b *Backend) plan(ctx context.Context, spec backends.Spec) (*plan, error) {
	if spec.Profile != "" && spec.Profile != hardened {
		return nil, backends.Refuse(fmt.Sprintf("the %s backend has no profile %q", b.Name(), spec.Profile), "use hardened")
	}
	if err := checkRequire(b.Name(), spec.Require); err != nil {
		return nil, err
	}
	if err := backends.CheckPorts(spec); err != nil {
		return nil, err
	}
	if err := CheckGPUs(spec.GPUs); err != nil {
		return nil, err
	}
	if err := backends.CheckHome(spec); err != nil {
		return nil, err
	}
	s, err := b.engineState(ctx)
	if err != nil {
		return nil, err
	}
	if !s.UserNS && slices.Contains(spec.Require, backends.LayerUser) {
		return nil, s.refuseLayer(backends.LayerUser, noUsers)
	}
	p := &plan{engineState: s, spec: spec}
	if p.binds, p.covers, err = b.mounts(s, spec); err != nil {
		return nil, err
	}
	if p.user, err = chooseUser(b.Name(), s.Info, s.us, p.binds); err != nil {
		return nil, err
	}
	for _, bind := range p.binds {
		if err := backends.CheckRights(ctx, backends.Mount{Host: bind.Host, Inside: bind.Inside, Write: bind.Write}, p.user.onHost(s.Info, s.us)); err != nil {
			return nil, err
		}
	}
	if len(p.binds) == 0 {
		p.user = p.unprivileged()
	}
	p.spec = initSpec(spec)
	return p, nil
}

// findImage finds the image for a plan's language.
func (b *Backend) findImage(ctx context.Context, p *plan, policy string) (err error) {
	if p.image, err = b.image(ctx, p.engineState, p.spec.Language, policy); err == nil {
		p.title = imageTitle(b.config.Images[p.spec.Language], p.image)
	}
	return err
}

// nobody is in the /etc/passwd of every image that has such a file.
var nobody = identity{uid: 65534, gid: 65534}

// unprivileged is the user of programs without mounted host paths. If our own /etc/passwd can't be mounted, it is
// one that the image knows, if possible: programs look up their user name.
func (p *plan) unprivileged() identity {
	if p.attach && p.Limits { // without a cgroup, each container needs a user of its own: RLIMIT_NPROC counts by user
		return nobody
	}
	return unprivileged(p.Info, p.us)
}

// initSpec returns the specification for the container's init: host paths stay with us.
func initSpec(spec backends.Spec) backends.Spec {
	spec.Limits = spec.Limits.WithDefaults()
	spec.Program = announcedCommand(spec.Language, spec.Program)
	spec.Mounts = slices.Clone(spec.Mounts)
	for i := range spec.Mounts {
		spec.Mounts[i].Host = spec.Mounts[i].Inside
	}
	switch w := &spec.Workspace; {
	case w.Propose: // a copy is sent later
		w.Host = ""
	case w.Host != "":
		w.Host = Workspace
	}
	spec.Require = slices.DeleteFunc(slices.Clone(spec.Require), func(layer string) bool { return !setByInit(layer) })
	return spec
}

// announcedCommand returns the part of a program that its init needs to prepare an interpreter, which may serve
// another program with the same prefix: up to a script's name, without its arguments. Exec sends the rest.
func announcedCommand(language string, c *backends.Command) *backends.Command {
	if c == nil {
		return nil
	}
	n := 1
	switch {
	case language == "shell" && len(c.Args) == 2 && c.Args[0] == "bash": // with arguments, no interpreter is prepared
		n = 2
	case language == "python", language == "node":
		if n = 2; len(c.Args) > 1 && c.Args[1] == "--enable-source-maps" {
			n = 3
		}
	}
	args := c.Args[:min(len(c.Args), n)]
	if !utf8.ValidString(strings.Join(args, "")) || !utf8.ValidString(c.Dir) {
		return nil
	}
	return &backends.Command{Args: args, Dir: c.Dir, Main: c.Main}
}

// setByInit reports whether the init provides a layer.
func setByInit(layer string) bool {
	return slices.Contains([]string{backends.LayerLandlock, backends.LayerSeccomp, backends.LayerCaps, backends.LayerNNP, backends.LayerRlimit}, layer)
}

// coldReason returns the reason why no idle container can serve this plan, "" if one can. Mounts must exist from
// the start.
func (p *plan) coldReason(asked backends.Spec) string {
	switch {
	case len(p.binds) > 0, asked.Workspace.Propose:
		return "host directories are mounted"
	case len(asked.GPUs) > 0:
		return "it has GPUs"
	case asked.Home != "":
		return "it has a home directory"
	case len(asked.Trust) > 0:
		return "it trusts a certificate"
	}
	return ""
}

func (p *plan) poolKey() poolKey {
	limits := p.spec.Limits
	limits.Wall = 0 // the init enforces it
	return poolKey{p.spec.Language, p.image.ID, limits}
}

// Resources of PID 1 itself. It collects its garbage at 24 MiB, and the launcher is a copy of it that has not
// started its work.
const (
	initMemory  = 64 << 20 // bytes
	initThreads = 16
)

// Limits of the processes of a container. The limit of all its user's processes, in all containers, is below the
// kernel's usual pid_max, to which Podman's service lowers its own; the container's cgroup enforces the effective
// limit.
const (
	usualFiles     = 4096
	usualProcesses = 1 << 14
)

// resources returns the engine's part of limits. RAM bounds programs without their files, and the init watches it;
// the kernel counts both.
func resources(language string, l backends.Limits) Resources {
	return Resources{Memory: l.RAM + l.Disk + initMemory, PIDs: int64(backends.MaxTasks(language, l.Processes)) + initThreads, CPU: l.CPU}
}

// container returns the specification for the engine.
func (p *plan) container(name, id string, f *runDir, seed string) Container {
	l := p.spec.Limits
	c := Container{
		Name: name, Image: p.image.ID, User: p.user.String(), KeepID: p.user.keep, Hostname: hostname,
		Args: []string{InitPath, p.spec.Language}, Env: initEnviron(p.image.Env),
		Labels:    map[string]string{LabelInstance: p.instance.name, LabelState: p.instance.stateID},
		Tmpfs:     []Tmpfs{{Path: "/tmp", Size: l.Disk, Mode: 0o1777, Exec: true}},
		Shm:       l.Disk,
		Resources: resources(p.spec.Language, l), Files: maxFiles(),
		Sysctls: sysctls(),
		Masked:  maskedPaths(p.spec.GPUs), Seccomp: profile, GPUs: p.spec.GPUs, Idle: p.idle,
		Volumes: p.image.Volumes,
	}
	if id != "" {
		c.Labels[LabelID] = id
	}
	if p.spec.Workspace.Host == "" {
		c.Tmpfs = append(c.Tmpfs, Tmpfs{Path: Workspace, Size: l.Disk, Mode: 0o777, Exec: true})
	}
	if p.spec.Home != "" {
		c.Tmpfs = append(c.Tmpfs, Tmpfs{Path: p.spec.Home, Size: l.Disk, Mode: 0o777, Exec: true})
	}
	if p.HasInit {
		c.Etc, c.MemInfo = p.spec.EtcFiles(p.user.uid, p.user.gid), backends.MemInfo(l.RAM, 0)
	}
	if p.attach {
		c.Args, c.Stdin = append(c.Args, "-"), true
		c.Binds = []Bind{{Host: seed, Inside: Home}}
		if len(p.spec.Trust) > 0 { // the init writes them
			c.Tmpfs = append(c.Tmpfs, Tmpfs{Path: path.Dir(backends.TrustFile), Size: 4 << 20, Mode: 0o777})
		}
	} else {
		c.Binds = append([]Bind{{Host: p.binary.path, Inside: InitPath}}, f.binds(len(p.spec.Trust) > 0)...)
	}
	c.Binds, c.Covers = append(c.Binds, p.binds...), p.covers
	return c
}

// sysctls are settings of the container's own network namespace: the gateway's ports are low, and TCP's buffers use
// a bounded part of the host's memory, as for hardened processes.
func sysctls() map[string]string {
	return map[string]string{
		"net.ipv4.ip_unprivileged_port_start": "0",
		"net.ipv4.tcp_rmem":                   "4096 131072 131072", // bytes: minimum, default, maximum
		"net.ipv4.tcp_wmem":                   "4096 16384 131072",
		"net.ipv4.tcp_max_tw_buckets":         "8192",
	}
}

// maskedPaths are the paths that the engine covers in addition to its own list: the host users' keys, and the kernel's
// directories that identify this machine. A hardened process sees only its limits in /sys; PID 1 needs the cgroups
// there, and GPU drivers the rest.
func maskedPaths(gpus []string) []string {
	list := []string{"/proc/keys", "/proc/key-users", "/sys/kernel"}
	if len(gpus) > 0 {
		return list
	}
	return append(list, "/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/hypervisor", "/sys/module", "/sys/power")
}

// Overlaps reports whether one of our mounts is at a path, above or below it. An engine's volume there lies below
// ours.
func (c *Container) Overlaps(at string) bool {
	at = path.Clean(at)
	ours := []string{"/proc", "/dev", "/sys"}
	for _, t := range c.Tmpfs {
		ours = append(ours, t.Path)
	}
	for _, b := range c.Binds {
		ours = append(ours, b.Inside)
	}
	return slices.ContainsFunc(ours, func(o string) bool { return paths.Within(o, at) || paths.Within(at, o) })
}

// initEnviron returns the environment of PID 1, which programs do not inherit: the image's PATH, and no other
// variable of the image.
func initEnviron(image []string) []string {
	var env []string
	for _, kv := range image {
		if name, _, _ := strings.Cut(kv, "="); name == "PATH" {
			env = append(env, kv)
		} else if name != "" {
			env = append(env, name+"=")
		}
	}
	return append(env, "GOMAXPROCS=2")
}

// profile is the list of system calls that the engine allows PID 1 and its descendants, in moby's format. In
// addition, each program has a filter of its own, which PID 1 builds for its machine; this one also applies to PID
// 1.
//
// It is moby's list for a container without capabilities, minus the calls that package process forbids: a test
// derives it from moby's and reports a difference. It is a file because a server that is not on Linux needs it,
// too.
//
//go:embed seccomp.json
var profile string
