// Package process is the hardened process backend: a program runs as an ordinary process of the host's kernel, inside
// namespaces, a root directory built from nothing, Landlock, seccomp and cgroups, and sees nothing else.
//
// Package launch holds the code that runs outside of the server. This package compiles the plans that launch follows,
// and reads back from the kernel which layers are in force; package seccomp makes the filters. Sandboxes that show of
// the host only the system and an interpreter are spawned by a template, a process whose root directory is set up
// already; all others by a launcher.
//
// Config.Pool keeps idle sandboxes, each for one program, with all layers in force and an interpreter that waits for its
// arguments and its environment (idleProcess). A program finds there the same environment as in a new sandbox, which the
// twins of package backendtest compare, except for facts that stay true: when its process began, and the resources that it
// has used since (times, page faults, context switches, and Node's measurements from its own start); the inode numbers of
// its files, since two names existed before; a process number of 3 instead of 2 where it could not use the idle interpreter
// (packages in /workspace/.local, a missing file); and in its memory, bytes that the interpreter has freed. In an idle bash,
// /proc/self/environ holds the environment that it was started with, which is smaller than the environment that it has and
// passes on; SECONDS and PIPESTATUS have a value before its first command, and BASH_ARGC has one frame.
//
// An idle Python is a fork of one that was started before, see package zygote. It shares with the other forks (maxForks,
// maxZygoteAge) the seed of its hashes, the layout of its memory, and the canaries of its stack, and has _ctypes mapped. In
// a container it is no fork, and its /proc/self/environ is like an idle bash's.
//
// The files, by what happens to a sandbox:
//
//   - It is decided, and refused or begun: backend, start, mounts, interpreter, uids; probe and diagnose say why not.
//   - It may stand ready: pool, poolkey, idle, idle_wait, assign, zygote.
//   - Its PID 1 is forked: launcher, init, template; by a plan, a list of system calls (plan, messages).
//   - Its PID 1 sets it up: setup, root, disk, trust, listen; in the profile "landlock", landlock_profile and notify.
//   - A program starts in it: run, programs, exec, limits, landlock, pipes; containment reads back which layers hold.
//   - It runs: watch, sockets, usage, processes, files.
//   - It ends: run, deadlines, teardown.
//
// Libraries: go-landlock knows each ABI's rights; moby/profiles has the list of system calls that the filter is made from,
// go-seccomp-bpf their numbers, and x/net/bpf assembles it; x/sys has the kernel's numbers.
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
	// and the limits: the profile "hardened" then adds Landlock, the filter of system calls and limits of each process, and
	// the workspace is the container's own.
	Inside bool
	// NoInternet means that the network of the container leads somewhere: programs get no sockets of IPv4 and IPv6, but in a
	// sandbox with a gateway, which whoever made the container has to refuse.
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
