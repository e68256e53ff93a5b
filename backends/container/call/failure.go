package call

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// failure is an encoded error. Its kind preserves the sentinel errors that callers match.
type failure struct {
	Text    string
	Kind    string              `json:",omitempty"` // of kinds
	Refusal *backends.Refusal   `json:",omitempty"`
	Program *backends.NoProgram `json:",omitempty"`
}

var kinds = []struct {
	name string
	is   error
}{
	{"cancelled", context.Canceled},
	{"deadline", context.DeadlineExceeded},
	{"absent", fs.ErrNotExist},
	{"present", fs.ErrExist},
	{"denied", fs.ErrPermission},
	{"full", syscall.ENOSPC},
}

// failureOf encodes an error; nil for nil.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: engine.OneLine(err.Error())}
	if errors.As(err, &f.Refusal) || errors.As(err, &f.Program) {
		return f
	}
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			f.Kind = k.name
			break
		}
	}
	return f
}

// decode returns the encoded error.
func (f *failure) decode() error {
	if f == nil {
		return nil
	}
	if r := f.Refusal; r != nil {
		return &backends.Refusal{Layer: engine.OneLine(r.Layer), Reason: engine.OneLine(r.Reason), Remedy: r.Remedy.Clean(engine.OneLine)}
	}
	if p := f.Program; p != nil {
		return &backends.NoProgram{Name: engine.OneLine(p.Name), Path: engine.OneLine(p.Path), Found: p.Found, Reason: engine.OneLine(p.Reason)}
	}
	e := &initError{text: engine.OneLine(f.Text)}
	for _, k := range kinds {
		if k.name == f.Kind {
			e.kind = k.is
		}
	}
	return e
}

// initError is an error that happened in the container.
type initError struct {
	text string
	kind error
}

func (e *initError) Error() string { return e.text }
func (e *initError) Unwrap() error { return e.kind }
