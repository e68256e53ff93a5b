// Package kernel keeps an interpreter running inside a sandbox, so that what one piece of code
// leaves behind is there for the next: variables, imports, files, threads.
//
// A driver for each language runs in the interpreter and speaks length-prefixed JSON on a private
// descriptor. What programs print goes another way, so no printed text is ever taken for a reply.
package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Bundle is one thing in several forms: MIME type -> text. Images and other binary types are base64.
type Bundle map[string]string

// Cell is one piece of code.
type Cell struct {
	Code string
	Name string   // in tracebacks, such as "cell 3"
	Env  []string // KEY=VALUE, set before the code runs, for good

	// Stdout and Stderr get what was written since the cell before, by whatever process of the
	// session. They are not called after Run has returned. nil throws away.
	Stdout, Stderr io.Writer
	Display        func(Bundle) // is called while the code runs, for each thing that it shows; may be nil

	Timeout time.Duration // after which the code is interrupted; must be more than 0
	Grace   time.Duration // between interrupting and killing; 0 is DefaultGrace
}

// DefaultGrace is how long interrupted code may take to end before its interpreter is killed.
const DefaultGrace = 2 * time.Second

// Outcome is what became of a cell.
type Outcome struct {
	Value Bundle // of the last expression; nil if there is none
	Error *Error // an error that ended it
	Exit  *int   // the code asked to exit, with this status; the session goes on
	// Ended is "ok", "error", "exit", "timeout", "cancelled" (the context), or "dead": the
	// interpreter ended, by itself or because it could not be interrupted, and its state is lost.
	Ended string
	Lost  bool // the interpreter is dead, whatever Ended says: Start a new one
	Wall  time.Duration
}

// Error is an error as the language tells it.
type Error struct {
	Type      string `json:"type"` // "ValueError", "TypeError"
	Message   string `json:"message"`
	Traceback string `json:"traceback"` // without the driver's own frames, as people are used to see it
}

// Variable is one name of a session.
type Variable struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Text string `json:"text"`           // its beginning, as the language prints it
	Size int64  `json:"size,omitempty"` // bytes, elements or rows: what Unit says
	Unit string `json:"unit,omitempty"`
}

// Kernel is a running interpreter. Its methods may be called concurrently; cells run one at a time.
type Kernel struct{}

// Start starts the driver for language ("python", "node", "shell", "r") in box, with env on top of
// the sandbox's environment, and waits until it is ready.
func Start(ctx context.Context, box backends.Sandbox, language string, env []string) (*Kernel, error) {
	return nil, errors.New("not built")
}

// Run runs one cell. An error means that it was not run at all.
func (k *Kernel) Run(ctx context.Context, c Cell) (Outcome, error) {
	return Outcome{}, errors.New("not built")
}

// Set makes value the variable key, or in a shell the variable key and the file $BRIDGE/key.json.
func (k *Kernel) Set(ctx context.Context, key string, value json.RawMessage) error { return nil }

// Get returns the variable key as JSON; an error says why it can't be written as JSON.
func (k *Kernel) Get(ctx context.Context, key string) (json.RawMessage, error) { return nil, nil }

// Variables lists the names that cells have made, by name.
func (k *Kernel) Variables(ctx context.Context) ([]Variable, error) { return nil, nil }

// Contained says what holds the interpreter.
func (k *Kernel) Contained() backends.Containment { return backends.Containment{} }

// Done is closed when the interpreter is dead; then Death says how it ended.
func (k *Kernel) Done() <-chan struct{} { return nil }

// Death is the result of the interpreter's process, once Done is closed.
func (k *Kernel) Death() (backends.Result, error) { return backends.Result{}, nil }

// Close ends the interpreter, and with it all processes of the sandbox, and waits for that.
func (k *Kernel) Close() error { return nil }
