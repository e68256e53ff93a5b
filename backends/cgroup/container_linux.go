package cgroup

import (
	"errors"
	"strconv"
	"strings"
	"sync"

	cg "github.com/opencontainers/cgroups"
)

// ContainerGroup returns the cgroup of this process's container, read-only; or nil and the reason why it enforces
// no limits. The result is cached.
func ContainerGroup() (*Group, error) { return view() }

var view = sync.OnceValues(func() (g *Group, err error) {
	g = &Group{paths: map[string]string{"": "/sys/fs/cgroup"}, readOnly: true}
	if !cg.IsCgroup2UnifiedMode() {
		if g.paths, err = ownV1(); err != nil {
			return nil, err
		}
	}
	return g, g.readLimits()
})

// ErrUnlimited reports a container without limits of its own.
var ErrUnlimited = errors.New("the engine has set no limits for the container")

// readLimits determines the limits of a container's cgroup. An engine that may not create a cgroup leaves its
// containers in another one, which usually has no limits, and whose counters include other processes. A rootless
// engine may limit memory and processes, but not CPU time.
func (g *Group) readLimits() error {
	const none = 1 << 60 // v1 reports a large number of bytes, and -1 microseconds; v2 reports "max"
	for _, l := range []struct{ controller, v1, v2 string }{
		{"memory", "memory.limit_in_bytes", "memory.max"}, {"pids", "pids.max", "pids.max"}, {"cpu", "cpu.cfs_quota_us", "cpu.max"},
	} {
		value, _, _ := strings.Cut(strings.TrimSpace(g.readFile(l.controller, l.v1, l.v2)), " ") // v2's cpu.max appends the period
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n > 0 && n < none {
			g.limits = append(g.limits, l.controller)
		}
	}
	if !g.Enforces("memory") {
		return ErrUnlimited
	}
	return nil
}

// MatchesLimits reports whether the memory limit is that of a sandbox with so many bytes of RAM and of files. A
// cgroup with another limit, such as that of a service that contains the engine, also counts processes outside of
// the container. If the server has covered the limit's file, it shows RAM alone.
func (g *Group) MatchesLimits(ram, files int64) bool {
	const slack = 256 << 20 // the engine's allowance for the init
	limit := g.readNumber("memory", "memory.limit_in_bytes", "memory.max")
	n := limit - ram - files
	return limit == ram || n > -1<<20 && n < slack // the kernel rounds to pages
}
