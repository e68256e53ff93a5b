package engine

// maxProcesses is how many a container's user may have (RLIMIT_NPROC), in all containers: the limit that counts is
// that of the container's cgroup. It is below the kernel's usual pid_max, to which Podman's service lowers its own.
const maxProcesses = 1 << 14
