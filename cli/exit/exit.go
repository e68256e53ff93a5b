// Package exit defines the errors of the command line, each with an exit code and a hint that can be typed.
package exit

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// Exit codes of the command line, in addition to those of the program that it runs.
const (
	Failed        = 1   // a command other than run failed, or found a fault
	BadUsage      = 2   // usage error of a command other than run
	Timeout       = 124 // as in timeout(1)
	Refused       = 125 // run: refused, or could not run
	NotExecutable = 126 // run: the command can't be executed, as in shells
	NotFound      = 127 // run: the command does not exist in the sandbox
	Signalled     = 128 // plus the signal, which is SIGKILL for all limits except time
)

// Error is an error with an exit code and a hint that can be typed.
type Error struct {
	Code int
	Text string // "" prints nothing: it was reported already
	Hint string
}

func (f *Error) Error() string { return f.Text }

// Usage returns a usage error.
func Usage(hint, format string, args ...any) error {
	return &Error{Code: BadUsage, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Fail returns the error for an action that failed.
func Fail(hint, format string, args ...any) error {
	return &Error{Code: Failed, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Silent returns an error that sets the exit code and prints nothing.
func Silent(code int) error { return &Error{Code: code} }

// UnlessOK returns err or, if it is nil and ok is false, a silent error: the output has the reason.
func UnlessOK(ok bool, err error) error {
	if err == nil && !ok {
		return Silent(Failed)
	}
	return err
}

// FromError converts err to an Error.
func FromError(err error) *Error {
	if f, ok := errors.AsType[*Error](err); ok {
		return f
	}
	if stopped, ok := errors.AsType[*pipeline.Error](err); ok {
		f := &Error{Code: Refused, Text: stopped.Reason, Hint: stopped.Remedy.String()}
		if below, ok := errors.AsType[*pipeline.UnrecordedError](err); ok { // the error of the sandboxed run
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

// AsFailure changes the exit code of a pipeline's refusal to Failed.
func AsFailure(err error) error {
	if refused, ok := errors.AsType[*pipeline.Error](err); ok {
		return &Error{Code: Failed, Text: refused.Reason, Hint: refused.Remedy.String()}
	}
	return err
}

// Reason returns the reason and the remedy of an error.
func Reason(err error) (reason, remedy string) {
	if r, ok := errors.AsType[*backends.Refusal](err); ok {
		return r.Reason, r.Remedy.String()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it does not answer: " + err.Error(), ""
	}
	return err.Error(), ""
}

// AsRefusal changes the exit code of an error of run to Refused, which scripts should not use themselves.
func AsRefusal(err error) error {
	if err == nil {
		return nil
	}
	f := *FromError(err)
	if f.Text != "" && (f.Code == Failed || f.Code == BadUsage) {
		f.Code = Refused
	}
	return &f
}
