// Package seccomp builds the system call filter for all programs of a sandbox: the list that Docker permits to a
// container without capabilities (moby/profiles), minus the calls that a sandbox does not need, with rules on
// arguments for calls that are both useful and dangerous. elastic/go-seccomp-bpf knows the numbers of the calls,
// and x/net/bpf assembles.
package seccomp

// Kind selects one of the filters that sandboxes need.
type Kind struct {
	Namespaces  bool // the sandbox has its own network and IPC namespaces
	Affinity    bool // programs may choose their CPUs, since a cgroup counts CPU time
	WritesHost  bool // they may write to a host directory
	Notifies    bool // the server performs some calls (SECCOMP_RET_USER_NOTIF), since only Landlock protects the host's files
	InContainer bool // PID 1 has threads that programs can address, and its user owns processes of the server
	NoInternet  bool // the network namespace may reach other machines: no IPv4 and IPv6 sockets
}
