package pipeline

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Caller identifies the caller of an effect, if known, such as a person at the command line. Rows contain it.
type Caller struct {
	By   string // the interface, such as "command line"
	User string // of the operating system
	// Identity is the caller over HTTP, formatted by [identity.Identity.String]. CallerFrom replaces "" by the
	// identity of the context.
	Identity string
}

type callerKey struct{}

// WithCaller returns a context with the caller c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of a context, or the zero Caller.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	if i, ok := identity.From(ctx); ok && c.Identity == "" {
		c.Identity = i.String()
	}
	return c
}

// AddTo adds the caller to the facts of a row.
func (c Caller) AddTo(f Facts) {
	f.AddIf("by", c.By, len(c.By))
	f.AddIf("user", c.User, len(c.User))
	f.AddIf("identity", c.Identity, len(c.Identity))
}
