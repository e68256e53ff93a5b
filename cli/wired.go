package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
)

// wired has f do something with parts of this process, which the first signal that asks us to ends, and ends them.
func (p *program) wired(c *cli.Context, cfg config.Config, why purpose, f func(context.Context, *parts) error) error {
	ctx, cancel := interruptible(c.Context)
	defer cancel(nil)
	parts, err := wire(ctx, cfg, why)
	if err != nil {
		return err
	}
	defer func() {
		if err := parts.Close(); err != nil {
			p.say("warning: %v", err)
		}
	}()
	return f(ctx, parts)
}
