package call

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container/engine"
)

// failure is an error as it travels. Its kind keeps what callers decide by.
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

// failureOf encodes an error, nil for none.
func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	f := &failure{Text: engine.Plain(err.Error())}
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

// err decodes it.
func (f *failure) err() error {
	if f == nil {
		return nil
	}
	if r := f.Refusal; r != nil {
		return &backends.Refusal{Layer: engine.Plain(r.Layer), Reason: engine.Plain(r.Reason), Remedy: r.Remedy.Clean(engine.Plain)}
	}
	if p := f.Program; p != nil {
		return &backends.NoProgram{Name: engine.Plain(p.Name), Path: engine.Plain(p.Path), Found: p.Found, Reason: engine.Plain(p.Reason)}
	}
	e := &initError{text: engine.Plain(f.Text)}
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
