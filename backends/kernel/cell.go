package kernel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Bundle is a value in several forms: MIME type -> text. Images and other binary types are base64.
type Bundle map[string]string

// Cell is a piece of code with its inputs.
type Cell struct {
	Code string
	Name string   // shown in tracebacks, such as "cell 3"
	Env  []string // KEY=VALUE, set permanently before the code runs

	Charts bool // figures and tables come with their data, under e2b/chart and e2b/data

	// Tools are the functions that Python and Node can import from the module tools. Call performs a call: it may
	// be called concurrently, and its ctx ends with the cell. Its error becomes the text of the ToolError in the
	// code.
	Tools []Tool
	Call  func(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)

	// Stdout and Stderr receive the output since the last cell, of all processes of the session. They are not
	// written to after Run has returned. nil discards.
	Stdout, Stderr io.Writer
	Display        func(Bundle) // called while the code runs, for each displayed value; may be nil

	Timeout time.Duration // time before the code is interrupted; must be more than 0
	Grace   time.Duration // time between interrupting and killing; 0 is DefaultGrace
}

// DefaultGrace bounds the time that interrupted code has to end before its interpreter is killed. After half of it,
// the code is interrupted once more.
const DefaultGrace = 2 * time.Second

// Outcome is the result of a cell.
type Outcome struct {
	Value Bundle // of the last expression; nil if there is none
	Error *Error // the error that ended the cell
	Exit  *int   // exit status that the code requested; the session continues
	// Ended is "ok", "error", "exit", "timeout", "cancelled" (the context), or "dead": the
	// interpreter ended by itself, and its state is lost.
	Ended string
	Lost  bool // the interpreter is dead, whatever Ended says: Start a new one
	Wall  time.Duration
}

// Error is an error in the terms of the language.
type Error struct {
	Type      string `json:"type" redact:"brief"` // "ValueError", "TypeError"
	Message   string `json:"message" redact:"cut"`
	Traceback string `json:"traceback" redact:"cut"` // without the driver's own frames
}

func (e *Error) Error() string {
	if e.Message == "" {
		return e.Type
	}
	return e.Type + ": " + e.Message
}

// Run runs one cell. An error means that the cell did not run.
func (k *Kernel) Run(ctx context.Context, c Cell) (Outcome, error) {
	if c.Timeout <= 0 {
		return Outcome{}, errors.New("run a cell: it has no timeout")
	}
	q := request{Op: "run", Code: c.Code, Name: c.Name, Env: map[string]string{}, Charts: c.Charts, Tools: c.Tools, Mark: newMark()}
	for _, kv := range c.Env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.ContainsRune(kv, 0) {
			return Outcome{}, errors.New("run a cell: an environment variable is not of the form KEY=VALUE")
		}
		q.Env[name] = value
	}
	release, err := k.acquire(ctx)
	if err != nil {
		return Outcome{}, fmt.Errorf("run a cell: %w", err)
	}
	defer release()
	k.id++
	q.ID = k.id
	frame, err := k.codec.encode(q)
	if err != nil {
		return Outcome{}, fmt.Errorf("run a cell: %w", err)
	}
	k.out.startCell(q.Mark, c.Stdout)
	defer k.out.endCell()
	k.err.startCell(q.Mark, c.Stderr)
	defer k.err.endCell()
	began := time.Now()
	a := k.roundTrip(ctx, q.ID, frame, timeouts{c.Timeout, c.Grace}, k.newCalls(ctx, c), c.Display)
	out := a.outcome(time.Since(began))
	k.out.waitForMark(k.done)
	k.err.waitForMark(k.done)
	return out, nil
}

// outcome converts an answer to an Outcome.
func (a answer) outcome(wall time.Duration) Outcome {
	out := Outcome{Value: a.Value, Error: a.Error, Exit: a.Exit, Ended: "ok", Lost: a.dead, Wall: wall}
	switch {
	case a.stopped != "":
		out.Ended = a.stopped
		// bash may abandon a cell on an interrupt before its trap runs, while it parses $( or under set -e.
		if a.Error == nil && a.Exit != nil && *a.Exit != 0 {
			out.Error = &Error{Type: "Interrupted", Message: "the cell was interrupted"}
		}
	case a.dead:
		out.Ended = "dead"
	case a.Error != nil:
		out.Ended = "error"
	case a.Exit != nil:
		out.Ended = "exit"
	}
	return out
}
