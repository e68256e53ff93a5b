package process

import (
	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
)

// boundsOf are a sandbox's limits. What the program's files take is charged to the cgroup, too. This bounds both
// together, whatever happens; the watcher keeps RAM alone below its limit.
func boundsOf(l backends.Limits, tasks uint64) cgroup.Bounds {
	return cgroup.Bounds{Memory: l.RAM + l.Disk, Sockets: l.RAM, CPU: l.CPU, Tasks: int64(tasks)}
}

// join makes the process that follows p a member of v1 cgroups. In a v2 one it is born.
func join(g *cgroup.Group, p *plan) {
	if g.V2() {
		return
	}
	for _, f := range g.JoinFiles() {
		p.want(1, "join cgroup", unix.SYS_WRITE, p.file(f), p.str("0"), val(1))
	}
}

// checkCgroup forgets a container's cgroup that was not made for it.
func (s *sandbox) checkCgroup() {
	if s.inContainer && s.cgroup != nil && !s.cgroup.MadeFor(s.limits.RAM+s.limits.Disk) {
		s.cgroup, s.backend.cgroups.Why = nil, cgroup.ErrUnlimited.Error()
	}
}

// Cgroup says what is limited for the container in which this process is (Config.Inside): "v1: memory pids cpu"; ""
// if nothing is.
func (b *Backend) Cgroup() string {
	g, err := b.cgroups.View()
	if err != nil {
		return ""
	}
	return g.Detail()
}
