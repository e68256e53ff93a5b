// Package launch is the part of the process backend that runs outside the server: a small
// process, the launcher, that does nothing but start sandboxes, and in each sandbox its PID 1.
//
// The launcher forks a process into new namespaces, and that becomes PID 1. The server compiles
// what a sandbox is to be, and later each program that is to run in it, into a [Step] list: system
// calls with their arguments, and what each must answer. PID 1, or a child of its, makes the calls
// one after another and stops at the first that answers otherwise. A forked child of a Go process has no
// Go runtime to lean on (no other threads, no collector, no growing stacks), and a list of system
// calls needs none. Building the lists is ordinary Go, in package process.
//
// Why a launcher: a fork costs as much as the memory of the process that forks, and the server
// may be large; starting a whole Go program for each sandbox's PID 1 would cost 2 ms; and only the
// launcher's thread must live as long as the sandboxes, which die with it (PR_SET_PDEATHSIG).
//
// A nest is such a PID 1 in which no program ever runs: it has furnished a root directory that many
// sandboxes share, and forks their PID 1s, as the launcher does. They find the root as it is.
// A Python that speaks the same messages can be a nest, too: see package zygote.
//
// The package takes over the process in its init function when it finds that it was started as
// the launcher, before the packages that the rest of the binary imports are initialised: Go
// initialises packages in the order of their paths as soon as their imports are, so this one may
// import nothing but syscall and unsafe. TestTakesOverFirst in package process keeps that true.
package launch

// Name is the argument zero that makes a process the launcher.
const Name = "sandboxmcp-launcher"

// Closed as the launcher's argument has it be not dumpable: those of the same user can't open its
// memory. A hardened PID 1 can't come from such a launcher, since it has to write to its own /proc.
const Closed = "closed"

// Sock is the launcher's end of a SOCK_SEQPACKET pair to the server. When the server's end is
// closed, for whatever reason, the launcher exits and its sandboxes are killed.
const Sock = 3

// MaxPlan bounds a plan, in bytes: arguments and environment of a program together may have 2 MiB
// before execve(2) refuses them, and the rest of a plan is small.
const MaxPlan = 4 << 20

// Slots is how many values (descriptors, lengths) a plan can keep between its steps.
const Slots = 96

// Slots with a meaning.
const (
	SlotPlan    = 0  // the plan's own descriptor, if it has one
	SlotControl = 1  // PID 1's end of the socket to the server
	SlotFiles   = 2  // the first of the other descriptors that came with the plan
	SlotFree    = 40 // the first that a plan may use for what it makes itself
)

// MaxFiles is how many descriptors one message may carry.
const MaxFiles = 32

// Request asks the launcher, or a nest, for a process in new namespaces, which becomes PID 1 of a sandbox and
// waits for its plans. Its control socket is attached, and a cgroup v2 directory to be born in if
// there is one.
type Request struct {
	Flags uint64 // CLONE_*
}

// HelloSize is how many bytes come before a plan that travels in a message. A shorter message has the plan's
// descriptor attached, before the others.
const HelloSize = 8

// Whom a plan is for: the first byte of the message that it comes with.
const (
	ForInit     = 1 // PID 1 follows it itself
	ForProgram  = 2 // PID 1 forks a process that follows it
	ForTemplate = 3 // PID 1 follows it itself, and is a nest then: what comes after it are Requests
	ForHeld     = 4 // a zygote's PID 1 forks a process that follows it up to execve, and waits there for its claim
)

// Header begins a plan. Offsets count from the plan's first byte.
type Header struct {
	Size       uint32 // of the whole plan
	Steps      uint32 // offset of the steps
	StepCount  uint32
	Fixups     uint32 // offset of the fixups
	FixupCount uint32
	_          uint32
}

// Fixup says that the eight bytes at offset At must hold the address of offset To.
type Fixup struct{ At, To uint32 }

// Step is one system call.
type Step struct {
	NR    uint32 // number of the call, or Poke
	Kinds uint32 // four bits for each argument: Value, Address or Slot
	// Errno is what the call must fail with, 0 when it must succeed, AnyErrno when both will do.
	Errno int32
	Store int32 // slot for the result, or -1
	// Want is the result that a call which must succeed has to have: a value, AnyResult or Some.
	Want int64
	Args [6]uint64
}

// Poke as a Step's number stores the low 32 bits of Args[1] at the address Args[0].
const Poke = 1 << 30

// Kinds of argument.
const (
	Value   = 0 // as it is
	Address = 1 // an offset in the plan
	Slot    = 2 // what a slot holds
)

// Expectations.
const (
	AnyErrno  = -1
	AnyResult = -1
	Some      = -2 // anything but zero: a read that must not find the end
)

// Kinds of message that PID 1 and the programs' processes send to the server.
const (
	Ready   = 1 // PID 1 has made its plan's calls; descriptors are attached
	Failed  = 2 // step Index of a plan answered with Errno
	Started = 3 // a program's process exists
	Status  = 4 // a program's process says, before execve, how the kernel sees it: text follows
	Exited  = 5 // a program's process has ended
)

// Message is what PID 1 and the programs' processes tell the server.
type Message struct {
	Kind   uint32
	Index  int32 // of the step, for Failed
	Errno  int32 // for Failed; 0 when the call answered, but not as the plan wants
	Pid    int32 // inside the sandbox
	Wait   int32 // the wait status, for Exited
	Alone  int32 // 1 for Exited when PID 1 had no other child then, and so was the only process of the sandbox
	CPU    int64 // microseconds of user and system time, for Exited
	MaxRSS int64 // KiB, of the largest process, for Exited
}

// Reply is the answer: the new process, with a pidfd attached, or why not.
type Reply struct {
	Pid   int32 // as the launcher or the nest sees it
	Errno int32
}
