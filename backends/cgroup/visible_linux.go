package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	cg "github.com/opencontainers/cgroups"
)

// Hierarchy is a kernel file system in which a process in a cgroup namespace sees its own cgroup.
type Hierarchy struct {
	Name        string   // its directory below /sys/fs/cgroup: version 1's controllers, comma-separated; "" is version 2's
	Dir         string   // its directory below /
	Type        string   // for mount(2)
	Controllers []string // of version 1
	Shared      bool     // it shows other cgroups, and must be covered completely
	Covers      []string // else the files to cover: the kernel's memory limit includes files
}

// Hierarchies returns the hierarchies that a process in the cgroup sees. For a nil Group, all must be covered.
func (g *Group) Hierarchies() []Hierarchy {
	v1 := hierarchiesV1()
	switch {
	case g.V2():
		return []Hierarchy{{Dir: below, Type: "cgroup2", Covers: []string{"memory.max"}}}
	case g == nil && len(v1) == 0:
		return []Hierarchy{sharedHierarchyV2()}
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

// below is the parent of all hierarchies, below /.
const below = "sys/fs/cgroup"

// hierarchiesV1 returns the kernel's hierarchies of version 1 that runtimes read. A JVM uses none if one of memory,
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

// FilesV2 are the version 2 files that runtimes read, by importance.
var FilesV2 = []string{
	"memory.max", "cgroup.controllers", "memory.current", "memory.high", "memory.swap.max", "memory.swap.current", "cpu.max", "cpu.stat",
	"cpuset.cpus.effective", "cpuset.mems.effective", "pids.max",
}

// sharedHierarchyV2 returns the version 2 tree for a process in this process's cgroup. Since 2025, a JVM reads only
// files on the kernel's file system, so each file is covered individually if possible, which requires that the
// cgroup has a memory limit to cover, and no child cgroups. Its other numbers count all processes in it.
func sharedHierarchyV2() Hierarchy {
	h := Hierarchy{Dir: below, Type: "cgroup2", Shared: true}
	own, err := pathsOf("/proc/self/cgroup")
	if err != nil {
		return h
	}
	return coverEach(h, filepath.Join("/sys/fs/cgroup", own[""]))
}

// coverEach returns h with the files of the cgroup dir to cover, if they can be covered.
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
