// Package launch is the part of the process backend that runs outside the server: the launcher, a small process
// that only starts sandboxes, and PID 1 of each sandbox.
//
// The launcher forks a process into new namespaces, which becomes PID 1. The server compiles the setup of a
// sandbox, and later the start of each program in it, into a [Step] list: system calls with their arguments, and
// the required result of each. PID 1, or a child of it, makes the calls one after another and stops at the first
// unexpected result. A forked child of a Go process has no Go runtime (no other threads, no collector, no growing
// stacks), and a list of system calls needs none. Package process compiles the lists in ordinary Go.
//
// Why a launcher: the cost of a fork grows with the memory of the process that forks, and the server may be large;
// starting a whole Go program for each sandbox's PID 1 would cost 2 ms; and only the launcher's thread must live as
// long as the sandboxes, which die with it (PR_SET_PDEATHSIG).
//
// A template is a PID 1 in which no program ever runs: it has set up a root directory that many sandboxes share,
// and forks their PID 1s like the launcher, with the root in place. A Python that speaks the same messages can be a
// template, too: see package zygote.
//
// The package's init function takes over the process if argument zero is the launcher's, before other packages are
// initialised: Go initialises packages in the order of their paths as soon as their imports are, so this one may
// import only syscall and unsafe. TestTakesOverFirst in package process checks this.
package launch

// Name is the launcher's argument zero.
const Name = "sandboxmcp-launcher"

// Closed as the launcher's argument makes the launcher not dumpable: processes of the same user can't open its
// memory. Such a launcher can't fork a hardened PID 1, which has to write to its own /proc.
const Closed = "closed"

// Sock is the launcher's end of a SOCK_SEQPACKET pair to the server. When the server's end is closed for any
// reason, the launcher exits and its sandboxes are killed.
const Sock = 3

// MaxPlan bounds a plan, in bytes: execve(2) accepts at most 2 MiB of arguments and environment together, and the
// rest of a plan is small.
const MaxPlan = 4 << 20

// Slots is the number of values (descriptors, lengths) that a plan can keep between its steps.
const Slots = 96

// Slots with a fixed meaning.
const (
	SlotPlan    = 0  // the plan's own descriptor, if it has one
	SlotControl = 1  // PID 1's end of the socket to the server
	SlotFiles   = 2  // the first of the other descriptors sent with the plan
	SlotFree    = 40 // the first for the plan's own results
)

// MaxFiles bounds the descriptors of one message.
const MaxFiles = 32

// Request asks the launcher, or a template, for a process in new namespaces, which becomes PID 1 of a sandbox and
// waits for its plans. The message carries its control socket and, if any, the cgroup v2 directory to clone into.
type Request struct {
	Flags uint64 // CLONE_*
}

// HelloSize is the number of bytes before a plan that is part of a message. A shorter message carries the plan's
// descriptor, before the others.
const HelloSize = 8

// Recipients of a plan: the first byte of its message.
const (
	ForInit     = 1 // PID 1 executes it
	ForProgram  = 2 // PID 1 forks a process that executes it
	ForTemplate = 3 // PID 1 executes it and becomes a template, which receives Requests
	ForHeld     = 4 // a zygote's PID 1 forks a process that executes it up to execve, and waits there for its assignment
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

// Fixup requires that the eight bytes at offset At contain the address of offset To.
type Fixup struct{ At, To uint32 }

// Step is one system call.
type Step struct {
	NR    uint32 // number of the call, or Poke
	Kinds uint32 // four bits for each argument: Value, Address or Slot
	// Errno is the required error, 0 for success, AnyErrno for any.
	Errno int32
	Store int32 // slot for the result, or -1
	// Want is the required result of a successful call: a value, AnyResult or Some.
	Want int64
	Args [6]uint64
}

// Poke instead of a call's number stores the low 32 bits of Args[1] at the address Args[0].
const Poke = 1 << 30

// Kinds of arguments.
const (
	Value   = 0 // the value itself
	Address = 1 // an offset in the plan
	Slot    = 2 // the value of a slot
)

// Values of Errno and Want.
const (
	AnyErrno  = -1
	AnyResult = -1
	Some      = -2 // anything but zero: a read that must not find the end
)

// Kinds of messages from PID 1 and the programs' processes to the server.
const (
	Ready  = 1 // PID 1 has executed its plan; descriptors are attached
	Failed = 2 // step Index of a plan failed with Errno
	Status = 4 // the kernel's view of a program's process just before execve: text follows
	Exited = 5 // a program's process has ended
)

// Message is sent by PID 1 and the programs' processes to the server.
type Message struct {
	Kind   uint32
	Index  int32 // of the step, for Failed
	Errno  int32 // for Failed; 0 if the call succeeded with another result than required
	Pid    int32 // inside the sandbox
	Wait   int32 // the wait status, for Exited
	Alone  int32 // 1 for Exited if PID 1 has no other child, so that it was the sandbox's only process
	CPU    int64 // microseconds of user and system time, for Exited
	MaxRSS int64 // KiB, of the largest process, for Exited
}

// Reply answers a Request: it carries a pidfd of the new process, or Errno is the reason why there is none.
type Reply struct {
	Errno int32
	_     int32
}
