// Package warm makes in advance the parts of package process that take long: PID 1s in their own namespaces,
// templates that spawn these, and idle sandboxes, each for one program, with all layers in force and an interpreter
// that waits for its arguments and its environment (idleProcess). A sandbox without them is the same, and only
// takes longer.
//
// A program finds in an idle sandbox the same environment as in a new one, which backendtest's twins compare, with
// these exceptions: when its process began, and the resources that it has used since (times, page faults, context
// switches, and Node's measurements from its own start); the inode numbers of its files, since two names existed
// before; a PID of 3 instead of 2 where it could not use the idle interpreter (packages in /workspace/.local, a
// missing file); and in its memory, bytes that the interpreter has freed. In an idle bash, /proc/self/environ has
// the environment of its start, which is smaller than the environment that it has and passes on; SECONDS and
// PIPESTATUS have a value before its first command, and BASH_ARGC has one frame.
//
// An idle Python is a fork of one that was started before, see package zygote. It shares with the other forks
// (maxForks, maxZygoteAge) its hash seed, memory layout, and stack canaries, and has _ctypes mapped. In a container
// it is not a fork, and its /proc/self/environ is like an idle bash's.
//
// Backend.Start is in backend; a sandbox that is not idle is made in fresh, and start makes idle ones.
//
// A file calls those after it in this order: backend, fresh, zygote, start, spawn, pool, assign, idle_wait, idle,
// poolkey, spares, warm.
package warm

import "time"

// Config bounds the processes made in advance. The zero value makes none, but the one that Backend.Warm makes for the
// next sandbox.
type Config struct {
	// Ahead is the number of init processes to keep in fresh namespaces and cgroups, each for one sandbox, once the
	// first sandbox has been requested. Spawning one costs more than a millisecond, which a server then spends
	// while no caller waits.
	Ahead int
	// Max bounds the idle sandboxes of all kinds together. Their number follows demand.
	Max    int
	Memory int64         // bytes of RAM that they may hold, shared pages counted proportionally (PSS); 0 is 128 MiB
	Idle   time.Duration // an unrequested kind is dropped after this time; 0 is 5 minutes
}
