package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	cg "github.com/opencontainers/cgroups"
)

// Hierarchy is a file system of the kernel in which a process that has a cgroup namespace sees its own cgroup.
type Hierarchy struct {
	Name        string   // its place below /sys/fs/cgroup: version 1's controllers, with commas between; "" is version 2's
	Dir         string   // that place, below /
	Type        string   // for mount(2)
	Controllers []string // of version 1
	Shared      bool     // it shows cgroups of others, and is to be covered as a whole
	Covers      []string // or else the files to be covered: the kernel's limit of memory is that of memory and files together
}

// Hierarchies returns what a process in the cgroup is to be shown. Of nil, which is no cgroup, all are to be covered.
func (g *Group) Hierarchies() []Hierarchy {
	v1 := hierarchiesV1()
	switch {
	case g.V2():
		return []Hierarchy{{Dir: below, Type: "cgroup2", Covers: []string{"memory.max"}}}
	case g == nil && len(v1) == 0:
		return []Hierarchy{withoutOwnV2()}
	}
	list := slices.Clone(v1)
	for i := range list {
		h := &list[i]
		h.Shared = g == nil || g.paths[h.Controllers[0]] == ""
		for _, name := range []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} {
			if !h.Shared && slices.Contains(h.Controllers, "memory") && cg.PathExists(filepath.Join(g.paths["memory"], name)) {
				h.Covers = append(h.Covers, name)
			}
		}
	}
	return list
}

// below is the place of all hierarchies, below /.
const below = "sys/fs/cgroup"

// hierarchiesV1 returns the kernel's hierarchies of version 1 that runtimes read. A JVM takes none where one of memory,
// cpu, cpuacct and cpuset is missing.
var hierarchiesV1 = sync.OnceValue(func() (list []Hierarchy) {
	text, _ := readOnce("/proc/self/cgroup")
	for line := range strings.Lines(text) {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) < 3 {
			continue
		}
		h := Hierarchy{Name: fields[1], Dir: filepath.Join(below, fields[1]), Type: "cgroup", Controllers: strings.Split(fields[1], ",")}
		if slices.ContainsFunc(h.Controllers, func(name string) bool {
			return name == "cpuset" || name == "cpuacct" || slices.Contains(controllers, name)
		}) {
			list = append(list, h)
		}
	}
	return list
})

// FilesV2 are those of version 2 that runtimes read, in the order of their importance.
var FilesV2 = []string{
	"memory.max", "cgroup.controllers", "memory.current", "memory.high", "memory.swap.max", "memory.swap.current", "cpu.max", "cpu.stat",
	"cpuset.cpus.effective", "cpuset.mems.effective", "pids.max",
}

// withoutOwnV2 returns version 2's tree for a process in the cgroup of this one. A JVM since 2025 takes only files on
// the kernel's own file system, so that each is covered by itself, where that can be: the cgroup has a limit of memory
// to be covered, and no others below it. Its other numbers are those of all processes in it.
func withoutOwnV2() Hierarchy {
	h := Hierarchy{Dir: below, Type: "cgroup2", Shared: true}
	own, err := pathsOf("/proc/self/cgroup")
	if err != nil {
		return h
	}
	return coverEach(h, filepath.Join("/sys/fs/cgroup", own[""]))
}

// coverEach returns h with the files of the cgroup dir that are to be covered, if they can be.
func coverEach(h Hierarchy, dir string) Hierarchy {
	entries, err := os.ReadDir(dir)
	if err != nil || slices.ContainsFunc(entries, os.DirEntry.IsDir) || !cg.PathExists(filepath.Join(dir, FilesV2[0])) {
		return h
	}
	h.Shared = false
	for _, name := range FilesV2 {
		if cg.PathExists(filepath.Join(dir, name)) {
			h.Covers = append(h.Covers, name)
		}
	}
	return h
}
