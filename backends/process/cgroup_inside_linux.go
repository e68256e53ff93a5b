package process

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"

	cg "github.com/opencontainers/cgroups"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// viewed returns the cgroup that a container's processes are in, to be read and not changed; or nil
// and the reason why it keeps no limits of theirs.
func viewed() (*cgroup, error) {
	g := &cgroup{paths: map[string]string{}, seen: true}
	if cg.IsCgroup2UnifiedMode() {
		g.paths[""] = "/sys/fs/cgroup"
		return g, g.readLimits()
	}
	mounts, err := cg.GetCgroupMounts(false)
	if err != nil {
		return nil, err
	}
	own, err := cg.ParseCgroupFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		for _, name := range m.Subsystems {
			// Without a cgroup namespace, the engine mounts our own folder, and its root is as long as our path.
			if rel, err := filepath.Rel(m.Root, own[name]); err == nil && !strings.HasPrefix(rel, "..") {
				g.paths[name] = filepath.Join(m.Mountpoint, rel)
			}
		}
	}
	for _, name := range controllers {
		if g.paths[name] == "" {
			return nil, errors.New("the container sees no cgroup v1 controller " + name)
		}
	}
	return g, g.readLimits()
}

var errUnlimited = errors.New("the engine has set no limits for the container")

// readLimits finds out which limits of a container's cgroup there are. An engine that may not make a cgroup leaves its
// containers in another, which as a rule has none, and whose counters are of others, too. Of an ordinary user's engines
// some may limit memory and processes, and not CPU time.
func (g *cgroup) readLimits() error {
	const none = 1 << 60 // v1 says a large number of bytes, and -1 microseconds; v2 says "max"
	for _, l := range []struct{ controller, v1, v2 string }{
		{"memory", "memory.limit_in_bytes", "memory.max"}, {"pids", "pids.max", "pids.max"}, {"cpu", "cpu.cfs_quota_us", "cpu.max"},
	} {
		value, _, _ := strings.Cut(strings.TrimSpace(g.read(l.controller, l.v1, l.v2)), " ") // v2's cpu.max has the period behind it
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > 0 && n < none {
			g.limits = append(g.limits, l.controller)
		}
	}
	if !g.keeps("memory") {
		return errUnlimited
	}
	return nil
}

// madeFor says whether the limit of memory is that of a sandbox with these limits. In a cgroup that is limited for
// another reason, as a service with the engine in it may be, everything counts that is beside the container.
func (g *cgroup) madeFor(l backends.Limits) bool {
	const most = 256 << 20 // what the engine grants the init besides
	n := g.number("memory", "memory.limit_in_bytes", "memory.max") - l.RAM - l.Disk
	return n > -1<<20 && n < most // the kernel rounds to pages
}

// checkCgroup forgets a container's cgroup that was not made for it.
func (s *sandbox) checkCgroup() {
	if s.boxed && s.cgroup != nil && !s.cgroup.madeFor(s.limits) {
		s.cgroup, s.backend.cgroups.why = nil, errUnlimited.Error()
	}
}

// Cgroup says what is limited for the container in which this process is (Config.Inside): "v1: memory pids cpu"; ""
// if nothing is.
func (b *Backend) Cgroup() string {
	g, err := b.cgroups.viewed()
	if err != nil {
		return ""
	}
	return g.detail()
}
