package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// maxHanded is how long a run may take at most that is handed over: a server ends with its agent, and takes what it runs along.
const maxHanded = 5 * time.Minute

// handOver finds a server of this user that takes a run on and does all as this process would; nil if there is none. Nothing of this
// process is open yet, and its input is not read.
func handOver(ctx context.Context, c *cli.Context, cfg config.Config, q pipeline.Request) *control.Taken {
	local, _ := egress.CutLocal(q.Allow) // which this process opens for itself
	containers := cfg.Backend != "process" || cmp.Or(q.Backend, cfg.Backend) != "process"
	switch {
	case c.Bool("here"), c.Bool("tty"), cfg.Network == "ask", containers, len(q.GPUs) > 0, len(local) > 0,
		slices.Contains(cfg.Vault, "memory"), cmp.Or(q.Limits.Wall, cfg.Limits.Timeout()) > maxHanded:
		return nil
	}
	return control.Offer(ctx, socketDir(cfg), func() string { return besideLog(alike(ctx, cfg), cfg) }, q)
}
