// Package exit has the errors of the command line: each with an exit code, and a hint that can be typed.
package exit

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Exit codes of the command line, beside those of the program that it runs.
const (
	Failed        = 1   // a command other than run could not do what it should, or found a fault
	BadUsage      = 2   // a command other than run was typed wrong
	Timeout       = 124 // as timeout(1) says it
	Refused       = 125 // run: we refused, or could not run it
	NotExecutable = 126 // run: the command can't be executed, as shells say it
	NotFound      = 127 // run: there is no such command in the sandbox
	Signalled     = 128 // plus the signal, which is SIGKILL for all limits but the time
)

// Error is an error with an exit code and a hint that can be typed.
type Error struct {
	Code int
	Text string // "" prints nothing: it was said already
	Hint string
}

func (f *Error) Error() string { return f.Text }

// Usage returns the error for a command line that was typed wrong.
func Usage(hint, format string, args ...any) error {
	return &Error{Code: BadUsage, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Fail returns the error for an action that failed.
func Fail(hint, format string, args ...any) error {
	return &Error{Code: Failed, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Silent returns an error that sets the exit code and prints nothing.
func Silent(code int) error { return &Error{Code: code} }

// Unless returns err or, if there is none and ok is false, a silent error: what is wrong is in the output.
func Unless(ok bool, err error) error {
	if err == nil && !ok {
		return Silent(Failed)
	}
	return err
}

// Of converts err to an Error.
func Of(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	if stopped, ok := errors.AsType[*pipeline.Error](err); ok {
		f := &Error{Code: Refused, Text: stopped.Reason, Hint: stopped.Remedy.String()}
		if below, ok := errors.AsType[*pipeline.Unrecorded](err); ok { // this is who runs it
			f.Text += ": " + below.Error()
		}
		if no, ok := errors.AsType[*backends.NoProgram](err); ok && no.Found {
			f.Code = NotExecutable
		} else if ok {
			f.Code = NotFound
		}
		return f
	}
	if refusal, ok := errors.AsType[*backends.Refusal](err); ok {
		return &Error{Code: Failed, Text: refusal.Reason, Hint: refusal.Remedy.String()}
	}
	return &Error{Code: Failed, Text: err.Error()}
}

// NotDone gives a refusal of the pipeline the exit code Failed.
func NotDone(err error) error {
	if refused, ok := errors.AsType[*pipeline.Error](err); ok {
		return &Error{Code: Failed, Text: refused.Reason, Hint: refused.Remedy.String()}
	}
	return err
}

// Because returns why something could not be had, and what to do about it.
func Because(err error) (reason, remedy string) {
	if r, ok := errors.AsType[*backends.Refusal](err); ok {
		return r.Reason, r.Remedy.String()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer: " + err.Error(), ""
	}
	return err.Error(), ""
}

// Ours gives an error of run the exit code Refused, which no script should use itself.
func Ours(err error) error {
	if err == nil {
		return nil
	}
	f := *Of(err)
	if f.Text != "" && (f.Code == Failed || f.Code == BadUsage) {
		f.Code = Refused
	}
	return &f
}
