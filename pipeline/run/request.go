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

// Request asks for one run. Its zero value, with code and a name, or with a command, is a run with the default
// limits, no secrets, no network and nothing of the host. As JSON it is all but what works in its own process alone.
type Request struct {
	ID        string // a ULID; "" makes one
	Namespace string // whose run it is; "" is "default"
	Client    string // what the caller's program calls itself, for people who are asked about the run; "" is unknown

	Language string // "python", "node", "shell", or an operator's runtime; "" goes by Name
	Name     string // of the file that holds the code; "" makes one up
	Code     []byte
	// Show says that the code is an agent's, who writes as in a notebook: it may stand in a fence, whose language counts;
	// lines of Python may begin with ! or %; and what runs once in a sandbox of its own shows the value of its last
	// expression and its figures, as a session's code does. Without it, a program runs as it would anywhere.
	Show bool
	// CheckOnly has the syntax of the code be checked instead, as the operator's runtime of its language says.
	CheckOnly bool
	// Command is a program to run instead of code, and its arguments. It is looked for in the sandbox: in /workspace, its
	// working directory, where its name has a slash, else on the PATH. Language then says whose interpreter and image are
	// shown; "" shows all interpreters of this host.
	Command []string
	Args    []string // after the file's name
	Env     []string // KEY=VALUE
	// EnvOnce has the variables of Env be for this code alone, and not for what its session runs later.
	EnvOnce bool
	Inputs  []Input // are copied into the workspace before the program starts

	HostFiles
	Reach
	pipeline.Bounds // zero fields are the operator's defaults
	Where
	Streams

	Artifacts string // a host directory to save artifacts in, "" saves none
	// Beside says whether the host has, next to the code's file, a file or module of this name, and
	// its path there. It is asked only to give a hint after a program missed it. May be nil.
	Beside func(name string) (path string, ok bool) `json:"-"`

	calls *toolCalls // where its calls of tools wait; nil answers none
}

// HostFiles are files of the host that a run is shown.
type HostFiles struct {
	// Workspace is a host directory to show as /workspace; without one it is empty and thrown away.
	Workspace backends.Mount
	// Within is where in the host workspace the code lies already, "" if it does not.
	Within string
	Mounts []backends.Mount
	Data   []string // names of the operator's directories of data to show, see [DataDir]; not in a session
}

// Reach is what a run may use of the outside: secrets and the network.
type Reach struct {
	Secrets []string // keys to lease, which are also the names of the variables
	// Allow are names that the program may reach, such as "example.com", "*.example.com" or
	// "example.com:5432": nil is what the operator allows, an empty list nothing.
	Allow []string
	// Typed says that a person has typed Allow, and so granted it. Whatever an agent may fill in
	// must not set it.
	Typed bool
	// Ask is called in a goroutine of its own when a person is asked something for this run, such
	// as whether its connection to a name may be made. It may show the question to the caller's
	// user, answers through the broker, and returns when its context ends. May be nil.
	Ask func(context.Context, *approval.Pending) `json:"-"`
}

// Where says what contains a run: a sandbox of its own, or that of a session.
type Where struct {
	Backend string   // "" is the default one
	Profile string   // "" is the default one
	Require []string // layers, on top of those that the profile requires
	GPUs    []string // graphics processors to show: indices, or "all"; nil is what the backend shows anyone
	// Session is the id of the session that runs the code; "" is a sandbox of its own. What a
	// session was started with stays: Language, Backend, Profile, Mounts and Workspace must be empty.
	Session string
	// Context is the session's interpreter that runs the code: see NewContext. "" is its first.
	Context string
}

// Streams are what a program reads and writes, and by what it is ended.
type Streams struct {
	Stdin io.Reader `json:"-"` // nil is an empty input
	// Stdout and Stderr get the program's output while it runs, redacted and cut. One that blocks
	// or fails holds up neither the program nor its record: Do waits for it at the very end only,
	// and only until its context ends.
	Stdout, Stderr io.Writer `json:"-"`
	// Whole has Stdout and Stderr get all of the output: only what the result keeps is cut. A writer that blocks then
	// holds up the program, as the reader of a pipe does, until the program's time is up.
	Whole bool
	// Terminal, if not nil, is what the program has instead of pipes: Stdout gets all that it shows. Not in a session.
	Terminal *backends.Terminal `json:"-"`
	// Display gets what code in a session shows while it runs, free of secrets; the result has only the texts of it then.
	// It may be nil, and block as Stdout may.
	Display func(kernel.Bundle) `json:"-"`
	// Charts has figures and tables come with their data: see kernel.Cell.
	Charts bool
	// Stop, if not nil, is by what the caller ends the program, other than by the end of the context, which ends the run
	// and keeps nothing that the program left. It has no effect in a session.
	Stop *pipeline.Stopper `json:"-"`
}

// Input is a file or a directory that is copied into the workspace.
type Input struct {
	// Host is the absolute path of what to copy. Links in a directory are followed as long as they
	// stay in it and lead to files; others are passed over, with a warning.
	Host string
	// Name is where to put it, relative to the workspace; "" is the last part of Host, and "."
	// puts what is in a directory directly into the workspace.
	Name    string
	Content []byte // the file's content, when Host is ""
	// Run, if it is not "", is the run of the namespace whose artifact is the content.
	Run, Artifact string
}

// HostDirs are the directories of the host that the run is shown.
func (q *Request) HostDirs() []backends.Mount { return append(slices.Clone(q.Mounts), q.Workspace) }

// facts returns what is known of a request before anybody has looked at it, beside what all subjects have.
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
	f.AddIf("workspace", mountName(q.Workspace), len(q.Workspace.Host))
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
