// Package share assigns sandboxes shares of the host: users of their own, and CPUs.
package share

import (
	"math/rand/v2"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// CPUs distributes sandboxes over the CPUs where no cgroup counts their time: the affinity, with a filter that
// forbids changing it, then enforces the limit.
//
// Where a cgroup counts, no sandbox is bound to a CPU, although some runtimes would read their number of cores
// there: a bound program waits for other work on its CPU while another is idle. On a busy machine with two CPUs, a
// warm run of Python took 11 to 26 ms instead of 3 to 6 (medians of 25 runs, four times in turn).
type CPUs struct {
	mu    sync.Mutex
	bound map[int]int // number of sandboxes by CPU
}

// Assign chooses as many CPUs as a limit has cores, at least one: those of this process to which it has bound the
// fewest sandboxes. Among equals it chooses at random, since other servers choose, too.
func (c *CPUs) Assign(cores float64) (list []int, set *unix.CPUSet) {
	set = &unix.CPUSet{}
	if unix.SchedGetaffinity(0, set) != nil {
		return nil, nil
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(list, func(a, b int) int { return c.bound[a] - c.bound[b] })
	list = list[:backends.Cores(cores, len(list))]
	if c.bound == nil {
		c.bound = map[int]int{}
	}
	set.Zero()
	for _, cpu := range list {
		c.bound[cpu]++
		set.Set(cpu)
	}
	return list, set
}

// Return releases the CPUs of Assign.
func (c *CPUs) Return(list []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cpu := range list {
		c.bound[cpu]--
	}
}
