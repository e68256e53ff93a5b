// Package backends defines the contract between the pipeline and the code that contains a program.
//
// A [Backend] starts a [Sandbox], the sandbox runs commands, and Close leaves nothing behind. A one-shot run is start,
// exec, close; a session keeps its sandbox. Each backend has a directory of its own and passes the attacks of
// backends/backendtest.
package backends

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Backend contains programs by one means: hardened processes, or the containers of one engine. All methods may be
// called concurrently.
type Backend interface {
	// Name returns the value of --backend and SANDBOXMCP_BACKEND: "process", "podman", "docker" or "kubernetes".
	Name() string

	// Promises returns the layers that every sandbox of a profile has on every host, which the built-in profiles
	// require. It returns nil for an unknown profile.
	Promises(profile string) []string

	// Probe reports the layers and runtimes that this host offers to a sandbox of spec's profile, and whether the
	// layers that spec requires are available. It leaves nothing behind.
	Probe(ctx context.Context, spec Spec) (Probe, error)

	// Start builds a sandbox in which nothing runs yet. If the host can't provide a layer of spec.Require, it
	// returns a *Refusal: Start never contains less than spec requires.
	Start(ctx context.Context, spec Spec) (Sandbox, error)

	// CanMount returns nil if sandboxes can mount directories of this machine, else a *Refusal with the reason.
	CanMount(ctx context.Context) error

	// Pools reports the idle sandboxes for future programs, by kind.
	Pools() []Pool

	// Close ends all idle and all open sandboxes.
	Close() error
}

// Pool counts a backend's idle sandboxes for one kind of program: the programs of a language with the same limits,
// layers and mounts.
type Pool struct {
	Language string           `json:"language"`
	RAM      int64            `json:"-"`              // bytes, of the limits that distinguish the kind
	Ready    int              `json:"ready"`          // idle sandboxes, each for one program
	Memory   int64            `json:"memory"`         // bytes that they hold in RAM, shared pages counted proportionally (PSS)
	Hits     int64            `json:"hits"`           // programs that got an idle sandbox, since the backend was made
	Misses   int64            `json:"misses"`         // programs that got none
	Cold     map[string]int64 `json:"cold,omitempty"` // misses by reason
}

// Sandbox is an isolated environment for programs.
type Sandbox interface {
	// Exec runs one command and returns when it has ended and all of its output has reached streams. Unless
	// spec.Keep was set, no process of the sandbox is alive by then. A program that fails is a Result; an error
	// means that the command could not be run or contained, and was not started. When ctx ends, the program is
	// killed and the Result reports that. Several commands may run at once.
	Exec(ctx context.Context, cmd Command, streams Streams) (Result, error)

	// Files returns the workspace, which may be used before, during and after Exec, until Close.
	Files() Files

	// Gateway returns the sockets on which programs inside look up names and connect to them. It is empty unless
	// Spec.Resolves. Close closes the sockets.
	Gateway() Sockets

	// Usage returns the current resource usage of all processes of the sandbox, as far as the host can measure it.
	Usage() Usage

	// Sample starts to measure CPU of Usage and, if memory is true, Memory, which takes longer, but less than the
	// rest of Usage. wait returns the result. For a remote sandbox, the request travels while the caller does other
	// work.
	Sample(memory bool) (wait func() Usage)

	// Limit changes RAM, CPU and Processes while programs run, and returns the limits in force. A zero field keeps its
	// value. Without a cgroup, only RAM can be changed.
	Limit(Limits) (Limits, error)

	// Close ends every process and removes the sandbox from the host: mounts, namespaces,
	// cgroups, files. It is safe to call more than once.
	Close() error
}

// Files gives access to a sandbox's workspace without following links that programs left there.
type Files interface {
	// Put writes one file, named relative to the workspace, and makes its parent directories. The file belongs to the
	// sandbox's user. A name that leaves the workspace is an error.
	Put(name string, mode uint32, r io.Reader) error

	// Each calls f for every regular file in the workspace, in no fixed order, until f returns an error, which Each then
	// returns. It returns the number of entries that it skipped: links, sockets, devices, fifos, and names in directories
	// that could not be read.
	Each(ctx context.Context, f func(File) error) (skipped int, err error)

	// Changes calls f for every path of a proposed workspace that may differ from the host's directory, until f
	// returns an error, which Changes then returns. A directory comes before its contents. A missing path is
	// Removed, and listed once: a removed directory represents all its contents. Unchanged paths may be listed. No
	// link is followed. It may be called after Exec, until Close; without [Mount].Propose, the error is
	// ErrNotProposed.
	Changes(ctx context.Context, f func(Change) error) error
}

// File is one regular file of a workspace.
type File struct {
	Name string // relative to the workspace; any bytes but NUL, so not always UTF-8
	Size int64  // bytes, when the directory was read
	Mode uint32 // permission bits
	// Changed is the time of the last change of content or status (ctime), which a program can't set.
	Changed time.Time
	// Open opens the file for reading. It neither blocks on nor follows a replacement of the file: that is an
	// error.
	Open func() (io.ReadCloser, error)

	ID FileID // stays the same whatever is written to the file
}

// FileID identifies a file of a workspace, but not its replacement: its device and inode.
type FileID [2]uint64

// Spec describes a sandbox. The zero value shows only the system directories of the host, allows no network, and has
// the default limits.
type Spec struct {
	ID       string   // of the run or session, a ULID: part of each name on the host
	Language string   // one of Languages, the runtime that must be visible inside; or AnyProgram
	Profile  string   // "hardened" (also "") or "landlock"
	Require  []string // layers without which the sandbox must not start
	Limits   Limits
	Mounts   []Mount
	// Workspace is a host directory to show as /workspace; "" is an empty one that is removed with the sandbox.
	Workspace Mount
	Keep      bool // a session: other processes survive the end of a command
	// Home, if not "", is the home directory of programs, directly below /home; its last element is the user's
	// name, and it is the default working directory of commands. In the process backend it shows the same files as
	// /workspace; in a container it is a file system of its own. The profile landlock has none.
	Home string
	// Guest shows this program itself at GuestPath, for package guest. The profile landlock does not support it.
	Guest bool
	// Gateway are TCP ports on which the host accepts connections to every address of 127.0.0.0/8. If there are
	// any, the host also answers DNS: see Sandbox.Gateway. That is the only route out of the sandbox.
	Gateway []int
	// DNS has the host answer DNS without any Gateway: a program learns at once that a name does not exist, and the
	// host learns the name that the program requested.
	DNS bool
	// Trust is a PEM certificate that programs inside trust in addition to the host's. TrustFile then contains all
	// of them, and so do the system's bundles.
	Trust []byte
	// Etc are additional files of /etc, by name relative to it. Only the profile hardened of the process backend shows
	// them.
	Etc map[string]string
	// GPUs are the visible graphics processors: their indices, or "all". The process backend supports none.
	GPUs []string
	// Program, if known, is the first command to be executed: its interpreter may be idle in a pool. That affects
	// only the duration of the start.
	Program *Command
}

// Command is one program to run inside a sandbox.
type Command struct {
	// Args is the argument vector. Args[0] without a slash is the name of a runtime ("python", "node", "bash"), which the
	// backend resolves to its own, or of a program on the PATH inside.
	Args []string
	// Env is a list of KEY=VALUE that override the sandbox's own minimal environment.
	Env []string
	// Dir is the working directory; "" is Spec.Home, or /workspace without one.
	Dir string
	// Main marks the interpreter of a session: it may run as long as the sandbox exists, and its end ends all other
	// processes of the sandbox.
	Main bool
	// Endless permits a command of a session to run as long as the sandbox exists, like Main; its end ends no other
	// process.
	Endless bool
}

// Lasting reports whether the command may run as long as the sandbox exists.
func (c Command) Lasting() bool { return c.Main || c.Endless }

// Streams connects a command to its caller. Each writer is called from one goroutine. If a writer returns an error,
// the rest of that stream is lost, and the program continues.
type Streams struct {
	// Stdin is read until its end or the program's; nil is an empty input. A blocked Read may return after Exec.
	Stdin          io.Reader
	Stdout, Stderr io.Writer // nil discards

	// Channel, if not nil, is called before the program begins, with the host's end of a private two-way stream. The
	// program finds the other end as descriptor 3, which its children do not inherit by default. The callee closes the
	// stream.
	Channel func(io.ReadWriteCloser)
	// Interrupt, if not nil, sends SIGINT to the program's process group, once for each value. It must not be closed.
	Interrupt <-chan struct{}
	// Terminate does the same with SIGTERM.
	Terminate <-chan struct{}
	// Begun, if not nil, receives the containment of the program just before the program begins.
	Begun func(Containment)
	// Terminal, if not nil, gives the program a terminal and a session of its own instead of three pipes: Stdin is
	// the keyboard, and Stdout receives the screen. The end of Stdin sends nothing to the terminal.
	Terminal *Terminal
}

// Terminal configures the terminal of one program.
type Terminal struct {
	Size    Size
	Resized <-chan Size // later sizes; nil for none. It must not be closed.
}

// Size is the size of a terminal, in characters.
type Size struct{ Columns, Rows uint16 }

// Usage is the resource usage of a sandbox at one moment.
type Usage struct {
	CPU       time.Duration // user and system, since the sandbox started
	Memory    int64         // bytes of RAM, without the workspace's files
	Disk      int64         // bytes in /workspace, /tmp and /dev/shm together
	Processes int           // processes, without the sandbox's own PID 1
	// Lost counts the packets since the start that had no destination: IPv4 to addresses outside and, without a
	// gateway, DNS queries (and any UDP to an unused port of the sandbox's loopback). It is 0 if nothing counts
	// them.
	Lost int64
}

// Values of Result.Ended.
const (
	EndedOK        = "ok"        // exit code 0
	EndedExit      = "exit"      // another exit code
	EndedSignal    = "signal"    // killed by a signal that we did not send
	EndedTimeout   = "timeout"   // killed by a signal from somebody else
	EndedOOM       = "oom"       // Limits.RAM
	EndedLimit     = "limit"     // another limit, named in Result.Limit
	EndedRefused   = "refused"   // by policy, before the start (never from Exec)
	EndedCancelled = "cancelled" // the caller's context
)

// End describes how a command ended.
type End struct {
	Ended    string `json:"ended"`            // one of the Ended constants
	ExitCode int    `json:"exit_code"`        // 128+signal for EndedSignal, as in shells
	Signal   string `json:"signal,omitempty"` // "SIGSEGV" for EndedSignal
	Limit    string `json:"limit,omitempty"`  // "ram", "wall", "processes", "disk", "cpu", "sockets": the limit that ended it
}

// Result describes the end and the resource usage of one command.
type Result struct {
	End
	Hit        []string // limits that were reached without ending the command: "processes", "disk", "ram"
	Contained  Containment
	Wall       time.Duration
	CPU        time.Duration // user and system, of the whole tree where a cgroup counts it
	PeakMemory int64         // bytes; see Containment's "cgroup" or "rlimit" layer for how it was measured
	Lost       int64         // see [Usage]: of all programs of the sandbox
	Warm       bool          // its interpreter was idle in a pool
	Cold       string        // why not: "PYTHONPATH is set"; "" without a pool
}

// NoProgram is the error of Exec for a program that does not exist in the sandbox, or can't be executed there.
// Nothing has run.
type NoProgram struct {
	Name   string // Args[0] of the command
	Path   string // the searched directories, colon-separated; "" for a name with a slash
	Found  bool   // it exists but can't be executed
	Reason string // the kernel's error
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

// Refusal is the error for a sandbox that must not start because a layer would be missing.
type Refusal struct {
	Layer  string // the missing layer; "" for another reason
	Reason string // what is missing, and why
	Remedy remedy.Text
}

// Refuse returns a refusal with a reason and the parts of its remedy.
func Refuse(reason string, do ...any) *Refusal { return &Refusal{Reason: reason, Remedy: do} }

// FullReason returns the reason, including the missing layer.
func (r *Refusal) FullReason() string {
	if r.Layer == "" {
		return r.Reason
	}
	return "layer " + r.Layer + " is required and not available: " + r.Reason
}

func (r *Refusal) Error() string { return r.text().String() }

func (r *Refusal) text() remedy.Text {
	if r.Remedy.IsZero() {
		return remedy.Text{r.FullReason()}
	}
	return slices.Concat(remedy.Text{r.FullReason(), " ("}, r.Remedy, remedy.Text{")"})
}

// ReasonOf returns the text of an error. In the text of a refusal, the names of its remedy are still marked.
func ReasonOf(err error) remedy.Text {
	if r, is := errors.AsType[*Refusal](err); is {
		if before, last := strings.CutSuffix(err.Error(), r.Error()); last {
			return append(remedy.Text{before}, r.text()...)
		}
	}
	return remedy.Text{err.Error()}
}

// AnyProgram is the Spec.Language of a sandbox for arbitrary programs: all usable interpreters are visible.
const AnyProgram = "command"

// Languages are the languages that every backend supports, in display order.
var Languages = []string{"python", "node", "shell", "r"}
