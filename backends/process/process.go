// Package process is the hardened process backend: a program runs as an ordinary process of the
// host's kernel, inside namespaces, a root directory built from nothing, Landlock, seccomp and
// cgroups, and sees nothing else.
//
// Package launch holds what runs outside the server. Here are the plans that it follows, and the
// reading back of what the kernel says is in force. Sandboxes that show of the host only the system and
// an interpreter are born in a nest, whose root directory is furnished already; all others by a launcher.
//
// Config.Pool has sandboxes stand ready, each for one program, with all layers in force and an interpreter
// that waits for its arguments and its environment (parked). A program finds there what it would have
// found anyway, which the twins of package backendtest compare; but for these, which are the truth:
// when its process began, and what that has used since (times, page faults, context switches, and what
// Node measures from its own start); the numbers of its files, since two names were there before; a
// process number of 3 instead of 2 where it could not have the interpreter that stood ready for it after
// all (packages in /workspace/.local, a file that was not there); and in its memory, if it looks for
// them, zeroes between its environment and the end of its stack, and bytes that the interpreter has freed.
// Of a bash that waited, /proc/self/environ says what it was started with, which is less than what it has and hands on; it has a
// value of SECONDS and PIPESTATUS before its first command, and one frame in BASH_ARGC.
//
// Such a Python may be a fork of one that has started before, see package zygote. It then shares with the
// others that this bore (mostForks, mostAge) the seed of its hashes, where all lies in memory, and the canaries
// of its stack, and has _ctypes mapped.
//
// Libraries: go-landlock knows each ABI's rights; moby/profiles has the list of system calls that the filter is made from,
// go-seccomp-bpf their numbers, and x/net/bpf assembles it; x/sys has the kernel's numbers.
package process

import (
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// withoutNamespaces are the containment layers of the profile "landlock".
var withoutNamespaces = []string{backends.LayerLandlock, backends.LayerSeccomp, backends.LayerCaps, backends.LayerNNP}

func promises(profile string) []string {
	switch profile {
	case "", "hardened":
		return backends.ContainmentLayers
	case "landlock":
		return withoutNamespaces
	}
	return nil
}

// Config is what the operator decides about the backend.
type Config struct {
	// StateDir is where the profile "landlock", which cannot mount, keeps workspaces while they
	// live; started by root, that is /var/lib/sandboxmcp. It is made when it is first needed.
	StateDir string
	// Delegate asks the user's systemd for a cgroup where there is none to be had otherwise.
	Delegate bool
	// Ahead is how many processes to keep waiting in fresh namespaces and cgroups, each for one
	// sandbox, once the first sandbox has been asked for. Making them costs more than a millisecond,
	// which a server spends while nobody waits. Zero keeps none.
	Ahead int
	// Pool bounds the sandboxes whose interpreters stand ready for programs that may come.
	Pool Pool
	// Inside says that this process is the init of a container, whose engine has made the namespaces,
	// the root directory and the limits: the profile "hardened" then adds Landlock, the filter of
	// system calls and limits of each process, and the workspace is the container's own.
	Inside bool
	// StartTimeout is how long a sandbox, or a program in it, may take to start before that is an error; 30 s if zero.
	StartTimeout time.Duration
	// KillTimeout is how long killed processes may take to end; 10 s if zero. What the kernel has not ended by then is
	// removed when it has.
	KillTimeout time.Duration
	// Hidden are files and directories of the host that no program may see, whatever is mounted: they are
	// covered. Nothing need be there.
	Hidden []string
}

// Pool bounds what stands ready: sandboxes with all layers in force and an interpreter that waits for
// its program, each for one program only. The zero value keeps none. How many there are goes by demand.
type Pool struct {
	Max    int           // sandboxes, of all kinds together
	Memory int64         // bytes that they may hold in RAM, shared pages counted by share (PSS); 256 MiB if zero
	Idle   time.Duration // a kind that nobody has asked for that long is given up; 5 minutes if zero
}
