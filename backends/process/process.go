// Package process is the hardened process backend: a program runs as an ordinary process of the host's kernel,
// inside namespaces, a root directory built from nothing, Landlock, seccomp and cgroups, and sees nothing else.
//
// Package launch contains the code that runs outside of the server. This package compiles the plans that launch
// executes, and reads back from the kernel which layers are in force; package seccomp builds the filters. Each
// sandbox is made when it is requested, and a launcher forks its PID 1, unless package warm has made one in advance.
// A program starts by Run in run; exec compiles its plan.
//
// A file calls those after it in this order: start, overlay, mounts, teardown, forker, launcher, run, programs,
// exec, containment, interpreter, pipes, diagnose, watch, limits, landlock, template, setup, backend, root,
// sockets, visible, processes, sandbox, init, messages, plan, process, deadlines.
//
//   - A sandbox is decided, and refused or started: start, overlay, mounts, interpreter; diagnose explains failures.
//   - Its PID 1 is forked: launcher, template, init; by a plan, a list of system calls (plan, messages).
//   - Its PID 1 sets it up: setup, root, sockets, visible; in the profile "landlock", landlock.
//   - A program starts in it: run, programs, exec, limits, landlock, pipes; containment reads back the active layers.
//   - The program runs: watch, sockets, processes; package files accesses its workspace.
//   - The sandbox ends: run, teardown.
//
// Libraries: go-landlock knows each ABI's rights; moby/profiles has the system call list from which the filter is
// built, go-seccomp-bpf the call numbers, and x/net/bpf assembles it; x/sys has the kernel's constants.
package process

import (
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// withoutNamespaces are the containment layers of the profile "landlock".
var withoutNamespaces = []string{backends.LayerLandlock, backends.LayerSeccomp, backends.LayerCaps, backends.LayerNNP}

// promises returns the containment layers of a profile ("" is "hardened"), nil if the profile is unknown.
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
	// StateDir holds the workspaces of the profile "landlock", which can't mount; for root it is
	// /var/lib/sandboxmcp. It is made at the first use.
	StateDir string
	// Delegate asks the user's systemd for a cgroup if there is no other way to get one.
	Delegate bool
	// Inside means that this process is the init of a container, whose engine has made the namespaces, the root
	// directory and the limits: the profile "hardened" then adds Landlock, the seccomp filter and limits of each
	// process, and the workspace is the container's own.
	Inside bool
	// NoInternet means that the container's network may reach other machines: programs get no IPv4 and IPv6
	// sockets, except in a sandbox with a gateway, which the container's creator must refuse.
	NoInternet bool
	// StartTimeout bounds the start of a sandbox, and of a program in it; 0 is 30 s.
	StartTimeout time.Duration
	// KillTimeout bounds the wait for killed processes; 0 is 10 s. Resources of processes that outlast it are
	// removed once the kernel has ended them.
	KillTimeout time.Duration
	// Hidden are files and directories of the host that no program may see, whatever is mounted: they are covered.
	// They need not exist.
	Hidden []string
	// Runtimes are interpreters by language that replace the ones found on the host.
	Runtimes map[string]runtimes.Runtime
}
