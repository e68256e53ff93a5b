package run

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// Request describes one run. Its zero value, with code and a name, or with a command, is a run with the default
// limits, no secrets, no network and no files of the host. Its JSON omits the fields that only work within this
// process.
type Request struct {
	ID        string // a ULID; "" makes one
	Namespace string // "" is "default"
	Client    string // the caller's program, shown to people who approve the run; "" is unknown

	Language string // "python", "node", "shell", or an operator's runtime; "" derives it from Name
	Name     string // of the file with the code; "" generates one
	Code     []byte
	// Show treats the code as an agent's, written as for a notebook: it may have a fence, whose language counts;
	// lines of Python may begin with ! or %; and a run in its own sandbox displays the value of its last expression
	// and its figures, as code in a session does. Without Show, a program runs as anywhere else.
	Show bool
	// CheckOnly checks the syntax of the code instead of running it, with the check command of its runtime.
	CheckOnly bool
	// Command is a program to run instead of code, and its arguments. The sandbox resolves it: a name with a slash in
	// /workspace, its working directory, any other on the PATH. Language then selects the interpreter and image to
	// show; "" shows all interpreters of this host.
	Command []string
	Args    []string // after the file's name
	Env     []string // KEY=VALUE
	// EnvOnce sets the variables of Env for this code alone, not for later code of its session.
	EnvOnce bool
	Inputs  []Input // are copied into the workspace before the program starts

	HostFiles
	Reach
	pipeline.Bounds // zero fields are the operator's defaults
	Where
	Streams

	Artifacts string // a host directory to save artifacts in, "" saves none
	// Beside reports whether the host has a file or module of this name next to the code's file, and its path there.
	// It is called only for a hint after a program missed it. May be nil.
	Beside func(name string) (path string, ok bool) `json:"-"`

	calls *toolCalls // its calls of tools wait there; nil refuses them
}

// HostFiles are the files of the host that a run can see.
type HostFiles struct {
	// Workspace is a host directory to show as /workspace; without one, /workspace is empty and discarded after the
	// run.
	Workspace backends.Mount
	// Project names one of the operator's workspaces instead, see [workspace.Named].
	Project string
	// Within is the path of the code's file in the host workspace, "" if it is elsewhere.
	Within string
	Mounts []backends.Mount
	Data   []string // names of the operator's directories of data to show, see [DataDir]; not in a session
	// Home is a directory below Config.Homes that the program has as its home, writable; "" is none. It is not bounded by
	// the limit of the disk.
	Home string
}

// Home is where a program finds the directory HostFiles.Home.
const Home = "/home/agent"

// Reach names the secrets and hosts that a run may use.
type Reach struct {
	Secrets []string // keys to lease, which are also the names of the variables
	// Allow lists hosts that the program may reach, such as "example.com", "*.example.com" or "example.com:5432": nil
	// is the operator's allowlist, an empty list allows none.
	Allow []string
	// Typed means that a person typed Allow, which grants it. An interface that an agent can use must not set it.
	Typed bool
	// Ask is called in a goroutine of its own when a person must decide something for this run, such as whether it
	// may connect to a host. It may show the question to the caller's user, answers through the broker, and returns
	// when its context ends. May be nil.
	Ask func(context.Context, *approval.Pending) `json:"-"`
}

// Where selects the sandbox of a run: one of its own, or a session's.
type Where struct {
	Backend string   // "" is the default one
	Profile string   // "" is the default one
	Require []string // layers in addition to those that the profile requires
	GPUs    []string // graphics processors to show: indices, or "all"; nil is the backend's default
	// Session is the id of the session that runs the code; "" is a sandbox of its own. An existing session fixes
	// Language, Backend, Profile, Mounts and Workspace, so these must be empty.
	Session string
	// Context is the session's interpreter that runs the code: see NewContext. "" is its first.
	Context string
}

// Streams connect a program's input and output, and let its caller stop it.
type Streams struct {
	Stdin io.Reader `json:"-"` // nil is an empty input
	// Stdout and Stderr get the program's output while it runs, redacted and cut. A writer that blocks or fails
	// delays neither the program nor its record: Do waits for it only at the very end, and only until its context
	// ends.
	Stdout, Stderr io.Writer `json:"-"`
	// Whole passes all of the output to Stdout and Stderr: only the result is cut. A writer that blocks then blocks
	// the program, as the reader of a pipe does, until the program's time is up.
	Whole bool
	// Terminal, if not nil, replaces the program's pipes: Stdout gets all of its output. Not in a session.
	Terminal *backends.Terminal `json:"-"`
	// Display gets the displays of code in a session while it runs, redacted; the result then has only their texts.
	// It may be nil, and may block as Stdout may.
	Display func(kernel.Bundle) `json:"-"`
	// Charts sends figures and tables with their data: see kernel.Cell.
	Charts bool
	// Stop, if not nil, lets the caller stop the program and keep its output and files; the end of the context ends
	// the run and keeps neither. Stop has no effect in a session.
	Stop *pipeline.Stopper `json:"-"`
}

// Input is a file or a directory that is copied into the workspace.
type Input struct {
	// Host is the absolute path of a file or directory to copy. Links in a directory are followed if they stay in it
	// and lead to files; others are skipped, with a warning.
	Host string
	// Name is the destination, relative to the workspace; "" is the last element of Host, and "." copies the content
	// of a directory directly into the workspace.
	Name    string
	Content []byte // the file's content, when Host is ""
	// Run and Artifact, if not "", name an artifact of an earlier run of the namespace; it is the content.
	Run, Artifact string
}

// HostDirs returns the directories of the host that the run can see.
func (q *Request) HostDirs() []backends.Mount { return append(slices.Clone(q.Mounts), q.Workspace) }

// homeMount returns the mount of the home, if there is one.
func (q *Request) homeMount() []backends.Mount {
	if q.Home == "" {
		return nil
	}
	return []backends.Mount{{Host: q.Home, Inside: Home, Write: true}}
}

// facts returns the facts about a request before it is checked, in addition to those that all subjects have.
func (q *Request) facts() pipeline.Facts {
	f := pipeline.EnvFacts(q.Env)
	f.AddIf("context", q.Context, len(q.Context))
	f.AddIf("command", q.Command, len(q.Command))
	if q.Terminal != nil {
		f["terminal"] = true
	}
	f.AddIf("args", len(q.Args), len(q.Args))
	f.AddIf("args_sha256", pipeline.Hash([]byte(strings.Join(q.Args, "\x00"))), len(q.Args))
	f.AddIf("secrets", q.Secrets, len(q.Secrets))
	f.AddIf("allow", q.Allow, len(q.Allow))
	f.AddIf("data", q.Data, len(q.Data))
	var mounts []string
	for _, m := range q.Mounts {
		mounts = append(mounts, mountName(m))
	}
	f.AddIf("mounts", mounts, len(mounts))
	f.AddIf("home", q.Home, len(q.Home))
	f.AddIf("workspace", mountName(q.Workspace), len(q.Workspace.Host))
	f.AddIf("project", q.Project, len(q.Project))
	return f
}

func mountName(m backends.Mount) string {
	mode := "ro"
	switch {
	case m.Write:
		mode = "rw"
	case m.Propose:
		mode = "changes"
	}
	return m.Host + ":" + m.Inside + ":" + mode
}
