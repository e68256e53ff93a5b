// Package seccomp makes the filter of system calls that all programs of a sandbox have: the list that Docker permits to
// a container without capabilities (moby/profiles), less what a sandbox does not need, and decided by arguments where a
// call has a use and a danger. elastic/go-seccomp-bpf knows the numbers of the calls, and x/net/bpf assembles.
package seccomp

// Kind distinguishes the filters that sandboxes need.
type Kind struct {
	Namespaces  bool // the sandbox has a network and an IPC namespace of its own
	Affinity    bool // its programs may choose their CPUs, since a cgroup counts
	WritesHost  bool // they may write to a directory of the host
	Notifies    bool // the server answers some calls (SECCOMP_RET_USER_NOTIF), since Landlock alone keeps the host's files
	InContainer bool // PID 1 has threads that programs can name, and its user owns processes of the server
	NoInternet  bool // the network namespace leads somewhere: there are no sockets of IPv4 and IPv6
}
