//go:build !linux && !darwin

package engine

// Processes is the limit of processes (RLIMIT_NPROC) for a container's user.
func Processes() uint64 { return maxProcesses }
