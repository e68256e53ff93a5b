package host

import (
	"os"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/cgroup"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

// Cage creates a cgroup for each command, if possible. Close it after the last command.
type Cage struct{ groups cgroup.Groups }

// NewCage returns a Cage. With delegate, it may ask the user's systemd for a scope. It creates nothing before the
// first command.
func NewCage(delegate bool) *Cage {
	return &Cage{cgroup.Groups{Delegate: delegate, Name: cgroup.NewName()}}
}

// Close removes the remaining cgroups.
func (c *Cage) Close() { c.groups.Close() }

// group returns a cgroup with these bounds and the descriptors to enter and leave it, or nil, and the name of the
// mechanism that enforces the bounds.
func (c *Cage) group(b launch.Bounds) (g *cgroup.Group, home []*os.File, enforcedBy string) {
	const watched = "rlimits, and a watcher of all processes"
	if c == nil {
		return nil, nil, watched
	}
	g, err := c.groups.Create()
	if err == nil {
		err = g.Limit(cgroup.Bounds{Memory: b.RAM, Sockets: b.RAM, CPU: b.CPU, Tasks: int64(b.Processes)})
	}
	if err == nil && g != nil && !g.V2() {
		for _, dir := range c.groups.ParentDirs() {
			var f *os.File
			if f, err = os.OpenFile(dir+"/tasks", os.O_WRONLY, 0); err != nil {
				break
			}
			home = append(home, f)
		}
	}
	if err != nil || g == nil {
		backends.CloseAll(home)
		g.Remove()
		return nil, nil, watched
	}
	return g, home, "cgroup " + g.Detail()
}

// killGroup kills all processes of a cgroup once the kernel kills one for its memory, which v1 leaves to us, until
// end is called.
func killGroup(g *cgroup.Group) (end func()) {
	if g == nil {
		return func() {}
	}
	over := make(chan struct{})
	var polling sync.WaitGroup
	polling.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for g.OOMKills() == 0 {
			select {
			case <-over:
				return
			case <-tick.C:
			}
		}
		_ = g.Kill(0)
	})
	return func() {
		close(over)
		polling.Wait()
	}
}

// addGroupUsage kills the remaining processes of a cgroup, and records its usage and exceeded bounds.
func (e *End) addGroupUsage(g *cgroup.Group) {
	if g == nil {
		return
	}
	e.Forks = g.ForksRefused() // before Kill, which adds refusals
	if g.Kill(killTimeout) != nil {
		return // the next server removes it
	}
	if g.OOMKills() > 0 {
		e.Limit = "ram"
	}
	e.Memory, e.CPU = max(e.Memory, g.Peak()), max(e.CPU, g.CPU().Round(time.Microsecond))
	g.Release()
}
