package pipeline

import "context"

// Caller is who asks for something, where that is known: a person at the command line, say. The rows about what
// they ask for name them.
type Caller struct {
	By   string // the way it came, such as "command line"
	User string // of the operating system
}

type callerKey struct{}

// ByCaller returns a context for what c asks for.
func ByCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// caller returns who asks, and nobody where it was not said.
func caller(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// sign adds who asks to what a row says.
func (c Caller) sign(f facts) {
	f.add("by", c.By, len(c.By))
	f.add("user", c.User, len(c.User))
}
