//go:build linux || darwin

package podman

import "golang.org/x/sys/unix"

// rlimits are those of a container's processes. None is above our own hard limits: an engine without
// CAP_SYS_RESOURCE can't set more than it has.
func rlimits(files uint64) []rlimit {
	files, processes := min(files, hard(unix.RLIMIT_NOFILE)), min(processes, hard(unix.RLIMIT_NPROC))
	return []rlimit{{Type: "core"}, {"nofile", files, files}, {"nproc", processes, processes}}
}

func hard(which int) uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(which, &r) != nil {
		return processes
	}
	return r.Max
}
