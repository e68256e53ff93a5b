package cli

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/launch"
)

func (p *program) hostCommand() *cli.Command {
	return &cli.Command{
		Name:      "host",
		Usage:     "run commands and reach files of this machine that are allowed, and say which are",
		UsageText: "sandboxmcp host exec|read|write|list|copy|access ...",
		Description: `What happens here happens outside of any sandbox. It is off until the configuration has host.enabled: true.

Example: sandboxmcp host exec docker ps`,
		Subcommands: append([]*cli.Command{
			p.hostExecCommand(),
			p.hostAccessCommand(),
		}, p.hostFileCommands()...),
	}
}

// onHost has f do something in a pipeline of this process. Who sits at a terminal is asked for what is not allowed.
func (p *program) onHost(c *cli.Context, why purpose, f func(context.Context, *pipeline.Pipeline, pipeline.HostCaller) error) error {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	var tty *console.Console // nobody is asked about what is off
	if cfg.Host.Enabled {
		tty = console.Open()
		defer tty.Close()
	}
	why.ask = tty != nil
	return p.wired(c, cfg, why, func(ctx context.Context, parts *parts) error {
		who := pipeline.HostCaller{Namespace: c.String("namespace"), Ask: tty.AskOnTerminal(parts.approvals)}
		return f(ctx, parts.pipeline, who)
	})
}

// hostOf is what the configuration allows on the host. What is not understood is an error, also while it is off: it
// would allow or block something else than the operator means.
func hostOf(cfg config.Config) (pipeline.Host, error) {
	h := cfg.Host
	const hint = "sandboxmcp config shows where it is set"
	policy, err := host.NewPolicy(host.Rules{Allowed: h.Allowed, Blocked: h.Blocked, Read: h.Read, Write: h.Write})
	if err != nil {
		return pipeline.Host{}, exit.Usage(hint, "host.%v", err)
	}
	if err := host.CheckEnvironment(h.Environment); err != nil {
		return pipeline.Host{}, exit.Usage(hint, "host.environment: %v", err)
	}
	return pipeline.Host{Enabled: h.Enabled, Policy: policy, Timeout: time.Duration(h.TimeoutSeconds) * time.Second,
		Output: h.OutputBytes, Bounds: launch.Bounds{RAM: h.RAMMB << 20, Processes: h.Processes, CPU: float64(h.CPUCores)}, Environment: h.Environment}, nil
}
