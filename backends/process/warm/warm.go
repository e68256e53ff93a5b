// Package warm keeps ready what takes long to make for package process: PID 1s in namespaces of their own, templates
// that spawn these, and idle sandboxes, each for one program, with all layers in force and an interpreter that waits
// for its arguments and its environment (idleProcess). A sandbox made without it is the same, and only takes longer.
//
// A program finds in an idle sandbox the same environment as in a new one, which the twins of package backendtest
// compare, except for facts that stay true: when its process began, and the resources that it has used since (times,
// page faults, context switches, and Node's measurements from its own start); the inode numbers of its files, since two
// names existed before; a process number of 3 instead of 2 where it could not use the idle interpreter (packages in
// /workspace/.local, a missing file); and in its memory, bytes that the interpreter has freed. In an idle bash,
// /proc/self/environ holds the environment that it was started with, which is smaller than the environment that it has
// and passes on; SECONDS and PIPESTATUS have a value before its first command, and BASH_ARGC has one frame.
//
// An idle Python is a fork of one that was started before, see package zygote. It shares with the other forks
// (maxForks, maxZygoteAge) the seed of its hashes, the layout of its memory, and the canaries of its stack, and has
// _ctypes mapped. In a container it is no fork, and its /proc/self/environ is like an idle bash's.
//
// A file uses those behind it in this order: backend, fresh, zygote, start, spawn, pool, assign, idle_wait, idle,
// poolkey, spares, warm.
package warm

import "time"

// Config bounds what is kept ready. The zero value keeps nothing.
type Config struct {
	// Ahead is how many init processes to keep in fresh namespaces and cgroups, each for one sandbox, once the first
	// sandbox has been requested. Spawning one costs more than a millisecond, which a server then spends while no caller
	// waits.
	Ahead int
	// Max bounds the idle sandboxes, of all kinds together. Their number follows demand.
	Max    int
	Memory int64         // bytes that they may hold in RAM, shared pages counted by share (PSS); 128 MiB if zero
	Idle   time.Duration // a kind that has not been requested for that long is given up; 5 minutes if zero
}
