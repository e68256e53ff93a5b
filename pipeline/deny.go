package pipeline

import (
	"context"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Denial is an action that policy forbids, such as a command on the host.
type Denial struct {
	Tool, Namespace string
	What            string // in one line: the command, the path, the address
}

// Deny refuses an action for the reason that policy gives, and puts that into the audit log. It returns
// an *Error.
func (p *Pipeline) Deny(ctx context.Context, w Denial, reason, remedy string) error {
	r := p.begin(&Request{Namespace: w.Namespace, Name: w.Tool, Code: []byte{}})
	r.facts = facts{"tool": w.Tool, "what": long(w.What)}
	r.asker("")
	_, err := r.stop(ctx, refuse(StageValidate, reason, remedy))
	return err
}

// Probe says what a backend offers to sandboxes of the default profile; "" is the default backend.
func (p *Pipeline) Probe(ctx context.Context, backend string) (backends.Probe, error) {
	var c checked
	if err := p.contain(&c, backend, "", nil); err != nil {
		return backends.Probe{}, err
	}
	return c.backend.Probe(ctx, backends.Spec{Profile: c.base, Require: c.requires})
}
