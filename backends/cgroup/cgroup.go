// Package cgroup makes cgroups of version 1 and 2 in which programs run: below our own where it is delegated to us or
// ours to write, or in a scope that the user's systemd gives. What a killed server has left is removed by the next.
//
// opencontainers/cgroups writes the limits.
package cgroup

// Bounds are the limits of a cgroup.
type Bounds struct {
	Memory  int64   // bytes, with files of tmpfs, and no swap
	Sockets int64   // bytes of TCP and UDP, which v1 counts apart
	CPU     float64 // cores
	Tasks   int64   // threads
}
