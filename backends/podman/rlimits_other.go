//go:build !linux && !darwin

package podman

// rlimits are those of a container's processes.
func rlimits(files uint64) []rlimit {
	return []rlimit{{Type: "core"}, {"nofile", files, files}, {"nproc", processes, processes}}
}
