// Package process is the hardened process backend: a program runs as an ordinary process of the host's kernel, inside
// namespaces, a root directory built from nothing, Landlock, seccomp and cgroups, and sees nothing else.
//
// Package launch holds the code that runs outside of the server. This package compiles the plans that launch follows,
// and reads back from the kernel which layers are in force; package seccomp makes the filters. Each sandbox is made
// when it is requested, and its PID 1 forked by a launcher; package warm makes processes ahead of time, by what this
// package exports.
//
// A file uses those behind it in this order: start, overlay, mounts, teardown, forker, launcher, run, programs, exec,
// containment, interpreter, pipes, diagnose, watch, limits, landlock, template, setup, backend, root, sockets, visible,
// processes, sandbox, init, messages, plan, process, deadlines.
//
//   - It is decided, and refused or begun: start, overlay, mounts, interpreter; diagnose says why not.
//   - Its PID 1 is forked: launcher, template, init; by a plan, a list of system calls (plan, messages).
//   - Its PID 1 sets it up: setup, root, sockets, visible; in the profile "landlock", landlock.
//   - A program starts in it: run, programs, exec, limits, landlock, pipes; containment reads back which layers hold.
//   - It runs: watch, sockets, processes; package files has its workspace.
//   - It ends: run, teardown.
//
// Libraries: go-landlock knows each ABI's rights; moby/profiles has the list of system calls that the filter is made
// from, go-seccomp-bpf their numbers, and x/net/bpf assembles it; x/sys has the kernel's numbers.
package process

import (
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// withoutNamespaces are the containment layers of the profile "landlock".
var withoutNamespaces = []string{backends.LayerLandlock, backends.LayerSeccomp, backends.LayerCaps, backends.LayerNNP}

// promises returns the containment layers of a profile, of which "" is "hardened"; nil if the profile is unknown.
func promises(profile string) []string {
	switch profile {
	case "", "hardened":
		return backends.ContainmentLayers
	case "landlock":
		return withoutNamespaces
	}
	return nil
}

// Config holds the operator's settings of the backend.
type Config struct {
	// StateDir holds the workspaces of the profile "landlock", which cannot mount; started by root, that is
	// /var/lib/sandboxmcp. It is made when it is first needed.
	StateDir string
	// Delegate asks the user's systemd for a cgroup where none can be had otherwise.
	Delegate bool
	// Inside means that this process is the init of a container, whose engine has made the namespaces, the root directory
	// and the limits: the profile "hardened" then adds Landlock, the filter of system calls and limits of each process,
	// and the workspace is the container's own.
	Inside bool
	// NoInternet means that the network of the container leads somewhere: programs get no sockets of IPv4 and IPv6, but in
	// a sandbox with a gateway, which whoever made the container has to refuse.
	NoInternet bool
	// StartTimeout bounds the start of a sandbox, and of a program in it; 30 s if zero.
	StartTimeout time.Duration
	// KillTimeout bounds the wait for killed processes; 10 s if zero. Resources of processes that outlast it are removed
	// once the kernel has ended them.
	KillTimeout time.Duration
	// Hidden are files and directories of the host that no program may see, whatever is mounted: they are covered. They
	// need not exist.
	Hidden []string
	// Runtimes are interpreters to use, by language, in the place of those that would be found.
	Runtimes map[string]runtimes.Runtime
}
