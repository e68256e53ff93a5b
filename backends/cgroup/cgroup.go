// Package cgroup makes cgroups of version 1 and 2 for programs: below this process's own where it is delegated or
// writable, or in a scope of the user's systemd. A server removes the cgroups of killed servers.
//
// opencontainers/cgroups writes the limits.
package cgroup

// Bounds are the limits of a cgroup.
type Bounds struct {
	Memory  int64   // bytes, with files of tmpfs, and no swap
	Sockets int64   // bytes of TCP and UDP, which v1 counts separately
	CPU     float64 // cores
	Tasks   int64   // threads
}
