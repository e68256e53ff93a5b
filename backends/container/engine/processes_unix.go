//go:build linux || darwin

package engine

import "golang.org/x/sys/unix"

// Processes is the limit of processes (RLIMIT_NPROC) for a container's user. It is not above our own: an engine without
// CAP_SYS_RESOURCE can't set more than it has.
func Processes() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &r) != nil {
		return maxProcesses
	}
	return min(maxProcesses, r.Max)
}
