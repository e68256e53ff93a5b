package cgroup

import (
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// spares are cgroups of closed sandboxes, for reuse: the kernel takes milliseconds to make and remove one in four
// trees. Only v1's can be reset, because only its counters can.
type spares struct {
	mu     sync.Mutex
	list   []*Group
	closed bool
}

// addGroup keeps an empty cgroup, and reports whether it was accepted. Counted events (a denied fork, an OOM kill,
// throttling) would be the next sandbox's.
func (s *spares) addGroup(g *Group) bool {
	if g.V2() || g.paths["cpuacct"] == "" || g.OOMKills() > 0 || g.ForksRefused() > 0 || g.throttleCount() > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.list) >= 4*runtime.NumCPU() {
		return false
	}
	s.list = append(s.list, g)
	return true
}

// reuseGroup returns a reset cgroup, or nil. The oldest comes first: the kernel frees a sandbox's memory a little after its
// end.
func (s *spares) reuseGroup() *Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(s.list); {
		g := s.list[i]
		if g.readNumber("pids", "pids.current", "") > 0 {
			i++ // the kernel has not yet freed the dead processes' memory
			continue
		}
		s.list = slices.Delete(s.list, i, i+1)
		if g.resetCounters() {
			return g
		}
		g.Remove()
	}
	return nil
}

const maxCharged = 4 << 20 // bytes

// resetCounters resets the counters. Charged memory would count as the next sandbox's: file pages that the last sandbox
// read first, and each CPU's reserve of 256 KiB.
func (g *Group) resetCounters() bool {
	return g.Usage() <= maxCharged && g.write("memory", "memory.max_usage_in_bytes", "0") == nil &&
		g.write("cpuacct", "cpuacct.usage", "0") == nil
}

func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, g := range s.list {
		g.Remove()
	}
	s.list = nil
}

// write writes a file of a v1 cgroup.
func (g *Group) write(controller, name, content string) error {
	fd, err := unix.Open(filepath.Join(g.paths[controller], name), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(content))
	return err
}

// throttleCount returns how often the cgroup has used up its CPU time before the end of a period.
func (g *Group) throttleCount() int64 {
	return g.readField("cpu", "cpu.stat", "cpu.stat", "nr_throttled")
}
