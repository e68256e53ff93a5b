package pipeline

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Caller identifies who asks for something, where that is known, such as a person at the command line. Rows about it
// name the caller.
type Caller struct {
	By   string // the way it came, such as "command line"
	User string // of the operating system
	// Identity is who asks over HTTP, as [identity.Identity.String] has it. What a context carries takes the place of "".
	Identity string
}

type callerKey struct{}

// WithCaller returns a context for what c asks for.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns who asks, and nobody where it was not said.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	if i, ok := identity.From(ctx); ok && c.Identity == "" {
		c.Identity = i.String()
	}
	return c
}

// AddTo adds who asks to what a row says.
func (c Caller) AddTo(f Facts) {
	f.AddIf("by", c.By, len(c.By))
	f.AddIf("user", c.User, len(c.User))
	f.AddIf("identity", c.Identity, len(c.Identity))
}
