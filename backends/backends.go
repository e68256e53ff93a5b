// Package backends is the contract between the pipeline and whatever contains a program.
//
// A [Backend] starts a [Sandbox], the sandbox runs commands, and closing it leaves nothing
// behind. One-shot is start, exec, close; a session keeps its sandbox. Each backend lives in a
// directory of its own and passes the attacks in backends/backendtest.
package backends

import (
	"context"
	"io"
	"net"
	"time"
)

// Backend contains programs in one way: a hardened process, or one container engine.
// All methods may be called concurrently.
type Backend interface {
	// Name is what --backend and SANDBOXMCP_BACKEND call it: "process", "podman" or "docker".
	Name() string

	// Promises are the layers that its sandboxes of a profile have wherever they start: what
	// the built-in profiles require of it. It is nil for a profile that it does not have.
	Promises(profile string) []string

	// Probe says which layers and runtimes this host offers to a sandbox of spec's profile, and
	// whether those that spec requires can be had. It leaves nothing behind.
	Probe(ctx context.Context, spec Spec) (Probe, error)

	// Start builds a sandbox in which nothing runs yet. A layer of spec.Require that the host
	// cannot give is a *Refusal: Start never contains less than it was asked to.
	Start(ctx context.Context, spec Spec) (Sandbox, error)

	// Pools are what the backend keeps ready for programs that may come, by kind.
	Pools() []Pool

	// Close ends what the backend keeps for speed. Sandboxes still open end with it.
	Close() error
}

// Pool is what a backend keeps ready for one kind of programs: those of a language that share their
// limits, layers and mounts.
type Pool struct {
	Language string
	RAM      int64            // bytes, of the limits that set it apart from others
	Ready    int              // sandboxes that wait, each for one program
	Memory   int64            // bytes that these hold in RAM, shared pages counted by share (PSS)
	Hits     int64            // programs that found one, since the backend was made
	Misses   int64            // programs that did not
	Cold     map[string]int64 // of the misses: how often for which reason
}

// Sandbox is one contained place for programs.
type Sandbox interface {
	// Exec runs one command and returns when it has ended and all that it wrote has reached
	// streams. Unless spec.Keep was set, no process of the sandbox is alive by then. A program
	// that fails is a Result; an error means that it could not be run or not be contained, and
	// then it was not started. When ctx ends, the program is killed and the result says so. Several
	// commands may run at once.
	Exec(ctx context.Context, cmd Command, streams Streams) (Result, error)

	// Files is the workspace. It may be used before, during and after Exec, until Close.
	Files() Files

	// Listeners accept what programs inside connect to: one for each of Spec.Listen, in that order.
	// Close closes them.
	Listeners() []net.Listener

	// Gateway is where programs inside ask for names and connect to them; empty unless
	// Spec.Resolves. Close closes its sockets.
	Gateway() Sockets

	// Usage is what all processes of the sandbox use now, as far as the host can tell.
	Usage() Usage

	// Spent looks up CPU of Usage as it is now, and Memory if asked to, which takes longer, but less than all the rest. Who
	// has to ask far away does so while its caller does something else, until that calls what is returned.
	Sample(memory bool) (wait func() Usage)

	// Limit changes RAM, CPU and Processes while programs run. Zero fields keep what is in force,
	// which Limit returns: where no cgroup counts, only RAM can be changed.
	Limit(Limits) (Limits, error)

	// Close ends every process and removes the sandbox from the host: mounts, namespaces,
	// cgroups, files. It is safe to call more than once.
	Close() error
}

// Files reaches into a sandbox's workspace without following links that programs left there.
type Files interface {
	// Put writes one file, named relative to the workspace, and the directories above it. The file
	// belongs to the sandbox's user. A name that leaves the workspace is an error.
	Put(name string, mode uint32, r io.Reader) error

	// Each calls f for every regular file below the workspace, in no fixed order, until f
	// returns an error, which Each then returns. It returns how many other things it passed over
	// (links, sockets, devices, fifos, and names below directories that could not be read).
	Each(ctx context.Context, f func(File) error) (skipped int, err error)
}

// File is one regular file of a workspace.
type File struct {
	Name string // relative to the workspace; any bytes but NUL, so not always UTF-8
	Size int64  // bytes, when it was listed
	Mode uint32 // permission bits
	// Changed is when content or status last changed, as the kernel saw it (ctime): a program
	// can't set it.
	Changed time.Time
	// Open reads the file. It never blocks on, nor follows, what was put in the file's place
	// since: such a change is an error.
	Open func() (io.ReadCloser, error)
}

// Spec is what a sandbox is made of. The zero value shows nothing of the host but its system
// directories, allows no network, and has the default limits.
type Spec struct {
	ID       string   // of the run or session, a ULID: names what must have a name on the host
	Language string   // one of Languages: the runtime that must be visible inside; or AnyProgram
	Profile  string   // "hardened" (also "") or "landlock"
	Require  []string // layers without which the sandbox must not start
	Limits   Limits
	Mounts   []Mount
	// Workspace is a host directory to show as /workspace; "" is an empty one that is thrown away.
	Workspace Mount
	Keep      bool // a session: other processes live on when a command ends
	// Listen are TCP ports on the sandbox's own loopback address, 127.0.0.1, on which the host
	// answers: see Sandbox.Listeners.
	Listen []int
	// Gateway are TCP ports on which the host accepts what programs connect to, whatever address
	// of 127.0.0.0/8 they take for it; and if there are any, the host answers DNS, too: see
	// Sandbox.Gateway. But for these and Listen, nothing leads out.
	Gateway []int
	// DNS has the host answer DNS without any Gateway: a program then learns at once that there is no
	// such name, and the host which one it asked for.
	DNS bool
	// Trust is a PEM certificate that programs inside are to trust beside those that the host
	// trusts: TrustFile then has all of them, and so have the bundles of the system.
	Trust []byte
	// Etc are files of /etc that one program looks for there, by name relative to that. Only the process backend's profile
	// hardened shows them.
	Etc map[string]string
	// GPUs are the graphics processors to show: their indices, or "all". The process backend has none.
	GPUs []string
	// Program, where it is known, is the first command that will be executed: its interpreter may stand
	// ready. Whether it does changes nothing but the time it takes.
	Program *Command
}

// TrustFile is where a sandbox with Spec.Trust has the certificates that programs are to trust.
const TrustFile = "/run/sandbox/trust.pem"

// DNSPort is taken inside of a sandbox in which the host answers DNS: no door can be there.
const DNSPort = 53

// Sockets are open for names inside a sandbox's own network namespace, and handed to the host.
type Sockets struct {
	DNS       net.PacketConn // UDP, DNSPort of 127.0.0.1, which the sandbox's resolv.conf names
	DNSStream net.Listener   // TCP, likewise
	Ports     []net.Listener // one for each port of Spec.Gateway; a connection's local address is what the program asked for
}

// Resolves says whether the host answers DNS inside.
func (s Spec) Resolves() bool { return s.DNS || len(s.Gateway) > 0 }

// Mount shows a host path inside the sandbox.
type Mount struct {
	Host   string // absolute
	Inside string // absolute; ignored for Spec.Workspace
	Write  bool   // read-only unless set
}

// Limits bound one sandbox. Zero means the default that DefaultLimits names, never "no limit".
type Limits struct {
	RAM       int64         // bytes, of all processes together, without the workspace's files
	Wall      time.Duration // of one Exec
	CPU       float64       // cores
	Processes int           // on top of what the interpreter itself needs to start
	Disk      int64         // bytes, for /workspace, /tmp and /dev/shm together
}

// EngineLayers are the containment layers that every container engine gives. The others a container
// has where the host does: a user namespace where the engine is rootless or maps users, Landlock where
// the kernel has it, a time namespace never.
var EngineLayers = []string{
	LayerMount, LayerPID, LayerNet, LayerIPC, LayerUTS, LayerCgroupNS, LayerSeccomp, LayerCaps, LayerNNP,
}

// DefaultLimits are the limits of a sandbox that names none.
var DefaultLimits = Limits{
	RAM:       512 << 20,
	Wall:      60 * time.Second,
	CPU:       1,
	Processes: 256, // pools of threads of numpy, npm and pytest have as many as there are cores, and a few of them
	Disk:      512 << 20,
}

// WithDefaults returns l with each zero field replaced by the default.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits
	if l.RAM > 0 {
		d.RAM = l.RAM
	}
	if l.Wall > 0 {
		d.Wall = l.Wall
	}
	if l.CPU > 0 {
		d.CPU = l.CPU
	}
	if l.Processes > 0 {
		d.Processes = l.Processes
	}
	if l.Disk > 0 {
		d.Disk = l.Disk
	}
	return d
}

// Command is one program to run inside a sandbox.
type Command struct {
	// Args is the argument vector. Args[0] without a slash is a runtime's name ("python",
	// "node", "bash"), which the backend resolves to its own, or a program on the inside PATH.
	Args []string
	// Env is KEY=VALUE, added to, and stronger than, the sandbox's own minimal environment.
	Env []string
	// Dir is the working directory, "/workspace" if empty.
	Dir string
	// Main is a session's own interpreter: it may run as long as the sandbox stands, and when it
	// ends, all other processes of the sandbox end with it.
	Main bool
}

// Streams connects a command. Writers are called from one goroutine each; a writer that returns
// an error loses the rest of that stream, and the program runs on.
type Streams struct {
	// Stdin is read until it or the program ends; nil is an empty input. A Read that blocks may
	// return after Exec has.
	Stdin          io.Reader
	Stdout, Stderr io.Writer // nil throws away

	// Channel, if not nil, is called before the program begins with our end of a private two-way
	// stream, which the program finds as its descriptor 3 and does not pass on to its children by
	// itself. Whoever gets it closes it.
	Channel func(io.ReadWriteCloser)
	// Interrupt, if not nil, sends SIGINT to the program and what is in its process group, once
	// for each value. It must not be closed.
	Interrupt <-chan struct{}
	// Terminate is the same with SIGTERM.
	Terminate <-chan struct{}
	// Begun, if not nil, is told what holds the program just before it begins.
	Begun func(Containment)
	// Terminal, if not nil, gives the program a terminal of its own, in a session of its own, instead of three pipes: Stdin is
	// its keyboard, and all that it shows goes to Stdout. The end of Stdin types nothing.
	Terminal *Terminal
}

// Terminal is one that a program has for itself.
type Terminal struct {
	Size    Size
	Resized <-chan Size // each size that it gets later; nil for none. It must not be closed.
}

// Size is a terminal's, in characters.
type Size struct{ Columns, Rows uint16 }

// Usage is what a sandbox uses at one moment.
type Usage struct {
	CPU       time.Duration // user and system, since the sandbox started
	Memory    int64         // bytes of RAM, without the workspace's files
	Disk      int64         // bytes in /workspace, /tmp and /dev/shm together
	Processes int           // processes, without the sandbox's own PID 1
	// Lost counts what was sent since the sandbox started to where there is no way: packets of IPv4 to addresses outside
	// and, without a gateway, look-ups (and whatever UDP comes to a port of its own loopback that nobody has). 0 also where nobody counts.
	Lost int64
}

// How a run ended. A run ends in exactly one of these ways.
const (
	EndedOK        = "ok"        // exit code 0
	EndedExit      = "exit"      // another exit code
	EndedSignal    = "signal"    // killed by a signal that we did not send
	EndedTimeout   = "timeout"   // Limits.Wall
	EndedOOM       = "oom"       // Limits.RAM
	EndedLimit     = "limit"     // another limit, named in Result.Limit
	EndedRefused   = "refused"   // by policy, before it began (never from Exec)
	EndedCancelled = "cancelled" // the caller's context
)

// Result is what became of one command.
type Result struct {
	Ended      string   // one of the Ended constants
	ExitCode   int      // 128+signal for EndedSignal, as shells say it
	Signal     string   // "SIGSEGV" for EndedSignal
	Limit      string   // "ram", "wall", "processes", "disk", "cpu", "sockets": the limit that ended it
	Hit        []string // limits that were run into without ending it: "processes", "disk", "ram"
	Contained  Containment
	Wall       time.Duration
	CPU        time.Duration // user and system, of the whole tree where a cgroup counts it
	PeakMemory int64         // bytes; see Containment's "cgroup" or "rlimit" layer for how it was measured
	Lost       int64         // see [Usage]: of all that ran in the sandbox
	Warm       bool          // what runs it stood ready
	Cold       string        // why not: "PYTHONPATH is set"; "" where nothing is kept ready
}

// Containment is what really held a program: read back from the kernel, not from the request.
type Containment struct {
	Backend string
	Profile string
	Layers  []Layer // in the order of the Layer constants
}

// Layer is one wall around the program.
type Layer struct {
	Name    string
	InForce bool
	Detail  string // what exactly: "ABI 7", "v1: memory pids cpu"; or why it is not in force
}

// InForce returns the names of the layers that held.
func (c Containment) InForce() []string {
	var names []string
	for _, l := range c.Layers {
		if l.InForce {
			names = append(names, l.Name)
		}
	}
	return names
}

// Layers of containment and resources, in the order in which they are reported.
const (
	LayerUser     = "user"     // user namespace, and an unprivileged host uid
	LayerMount    = "mount"    // own root, built from nothing
	LayerPID      = "pid"      // own processes
	LayerNet      = "net"      // empty network namespace
	LayerIPC      = "ipc"      // own System V and POSIX queues
	LayerUTS      = "uts"      // own host name
	LayerCgroupNS = "cgroupns" // own view of cgroups
	LayerTime     = "time"     // own clocks' offsets
	LayerLandlock = "landlock" // file, TCP and IPC rights
	LayerSeccomp  = "seccomp"  // system calls
	LayerCaps     = "caps"     // no capabilities
	LayerNNP      = "nnp"      // no new privileges
	LayerCgroup   = "cgroup"   // limits kept by the kernel (a resource layer)
	LayerRlimit   = "rlimit"   // limits of each process, and a watcher (a resource layer)
)

// ContainmentLayers are the layers that keep a program in; the profile "hardened" requires all of
// them. LayerCgroup and LayerRlimit are about resources, and not among them.
var ContainmentLayers = []string{
	LayerUser, LayerMount, LayerPID, LayerNet, LayerIPC, LayerUTS, LayerCgroupNS, LayerTime,
	LayerLandlock, LayerSeccomp, LayerCaps, LayerNNP,
}

// NoProgram is the error of Exec for a program that the sandbox does not show, or can't execute. Nothing ran.
type NoProgram struct {
	Name   string // Args[0] of the command
	Path   string // the directories in which it was looked for, with colons between; "" for a name with a slash
	Found  bool   // it is there, and can't be executed
	Reason string // the kernel's
}

func (e *NoProgram) Error() string {
	switch {
	case e.Found:
		return e.Name + " can't be executed in the sandbox: " + e.Reason
	case e.Path != "":
		return "there is no program " + e.Name + " in the sandbox, whose PATH is " + e.Path
	}
	return "there is no program " + e.Name + " in the sandbox"
}

// Refusal is the error for a sandbox that may not start, because a layer would be missing.
type Refusal struct {
	Layer  string // the layer, "" when it is not about one
	Reason string // what is missing, and why
	Remedy string // what to type or set
}

func (r *Refusal) Error() string {
	s := r.Reason
	if r.Layer != "" {
		s = "layer " + r.Layer + " is required and can't be had: " + s
	}
	if r.Remedy != "" {
		s += " (" + r.Remedy + ")"
	}
	return s
}

// Probe is what a host offers, for sandboxmcp doctor.
type Probe struct {
	Backend  string
	Usable   bool // a sandbox of the profile that was asked about can run
	Why      string
	Layers   []LayerProbe
	Runtimes []Runtime
}

// LayerProbe says whether a layer can be had here.
type LayerProbe struct {
	Layer
	Remedy string // what to type where it can't be had
}

// Runtime is one interpreter as found on the host or in an image.
type Runtime struct {
	Name    string // "python", "node", "shell"
	Path    string // the real program, links and shims resolved; "" when missing
	Version string
	Why     string // where it was found, or why it is missing and what to install
}
