package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/client"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/memory"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/version"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/mcp"
	"github.com/sandboxmcp/sandboxmcp/mcp/skills"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p *program) serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "serve agents over the Model Context Protocol, on standard input and output or over HTTP",
		UsageText: "sandboxmcp serve [--listen ADDRESS [--stdio]] [--namespace NAMESPACE] [--backend NAME] [--tools all|on] [--workspace " +
			"NAME=DIR] [--skills DIR] [--structured]",
		Description: `Agents start it themselves: their configuration names it as the command of a server, such as

  {"mcpServers": {"sandboxmcp": {"command": "sandboxmcp", "args": ["serve"]}}}

Results are text and images. Many clients pass structuredContent to their model instead, so a client gets it, and
outputSchema, only if it is known to pass on both. --structured sends it to every client, as programs need.

A tool that the configuration turns off (web.enabled, host.enabled) is listed with a note about how to enable it; with
--tools on it is not listed. The configuration is read once, when the server starts.

It ends with standard input, and so do its sessions. It logs to standard error. While it runs, sandboxmcp approvals
lists its requests for approval, and sandboxmcp session, queue, inspect, bridge and limits show and change its state. For
these, a person may start one by hand, which runs as long as its standard input is open:

  tail -f /dev/null | sandboxmcp serve >/dev/null &

With --listen, or http.listen in the configuration, it serves HTTP: MCP at /mcp, or /mcp/NAMESPACE, and for old clients at /sse, one
operation at /v1/tools/NAME, the people's API below /v1 (described by /v1/openapi.json), and the probes /healthz and /readyz. ADDRESS is
HOST:PORT, unix:PATH or systemd, the socket that systemd passes; without http.tls_cert it must be local. Each client needs a token:
sandboxmcp token create makes one. SIGTERM ends it once running requests have finished, after at most ten seconds.

Example: sandboxmcp serve --namespace my-agent
Example: sandboxmcp serve --listen 127.0.0.1:8750`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "backend", Usage: "default isolation backend `NAME`: process, podman, docker or kubernetes",
				DefaultText: command.SeeConfig},
			&cli.StringFlag{Name: "listen", Usage: "serve HTTP at `ADDRESS` instead of standard input and output", DefaultText: command.SeeConfig},
			&cli.BoolFlag{Name: "background", Usage: "be the server that sandboxmcp stop ends", Hidden: true}, // for start
			&cli.BoolFlag{Name: "stdio", Usage: "with --listen: serve standard input and output, too"},
			&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of all callers, whatever they request"},
			command.ToolsFlag("which tools are listed, as `WHICH`: all or on (those that the configuration has on)", "all"),
			&cli.StringFlag{Name: "skills", Usage: "offer clients the skills in `DIR`, each a directory with a SKILL.md, as resources and prompts",
				DefaultText: command.SeeConfig},
			&cli.StringSliceFlag{Name: "workspace", Usage: "let agents work in a directory, as `NAME=DIR`: their changes are proposed; " +
				"DIR:apply applies them, DIR:read allows none"},
			&cli.BoolFlag{Name: "structured", Usage: "send structuredContent to every client"},
		},
		Action: command.NoWords(p.serve),
	}
}

// inputEnd is a reader that calls end before it returns an error, including the end of input.
type inputEnd struct {
	io.Reader
	end func()
}

func (e inputEnd) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if err != nil {
		e.end()
	}
	return n, err
}

func (p *program) serve(c *cli.Context) error {
	on, err := command.ToolsOn(c)
	if err != nil {
		return err
	}
	cfg, err := wiring.Load(c, "backend", "skills")
	if err != nil {
		return err
	}
	for _, text := range c.StringSlice("workspace") {
		if err := cfg.AddWorkspace(text); err != nil {
			return exit.Usage("use --workspace app=/srv/app", "--workspace %s: %v", text, err)
		}
	}
	stdio := !c.IsSet("listen") || c.Bool("stdio")
	if c.IsSet("listen") {
		cfg.HTTP.Listen = c.String("listen")
	}
	var background *client.Background
	if c.Bool("background") {
		if background, err = client.LockBackground(c.Context, cfg.StateDir); err != nil {
			return err
		}
		defer background.Close()
	}
	if stdio && terminal.IsInteractive(p.In) && terminal.IsTerminal(p.Err) {
		p.Messagef("serve is waiting for an agent's messages on this terminal: Ctrl-D ends it; sandboxmcp setup makes an agent start it")
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel(nil)
	log := slog.New(slog.NewTextHandler(p.Err, nil))
	parts, err := wiring.New(ctx, cfg, wiring.Purpose{Delegate: true, Serve: true, Idle: p.idle, Log: log,
		Progress: func(line string) { log.Info("an image is fetched", "progress", line) }})
	if err != nil {
		return err
	}
	defer func() {
		if err := parts.Close(); err != nil {
			log.Error("the audit log was not closed as it should", "error", err)
		}
		if err := wiring.PushLast(context.WithoutCancel(ctx), cfg, parts.Places); err != nil {
			log.Error(err.Error())
		}
	}()
	defer wiring.RunInBackground(ctx, func(ctx context.Context) { // now rather than at the first call
		if err := parts.Log.Unopened(ctx); err != nil {
			cancel(err)
		}
	})()
	if err := parts.StartSinks(cfg, log); err != nil {
		return err
	}
	defer parts.StartPushing(ctx, cfg, log)()
	defer parts.StartRotating(ctx, cfg.Audit, log)()
	defer wiring.RunInBackground(ctx, memory.ReleaseWhenIdle)()
	memory.BoundGarbage()
	served := mcp.Config{
		Pipeline: parts.Pipeline, Log: parts.Log, Results: parts.Results, Approvals: parts.Approvals, User: console.User(),
		Backends:  parts.Names(),
		Namespace: c.String("namespace"), Structured: c.Bool("structured"), ToolsOn: on, Version: version.Current().Version, Logger: log,
	}
	if cfg.Skills != "" {
		if served.Skills, err = skills.Open(cfg.Skills, log); err != nil {
			return exit.Fail("make the directory, or set skills to another", "%v", err)
		}
		defer served.Skills.Close()
	}
	// Without it, one way to answer questions is missing; unanswered questions are denied.
	api := parts.API(ctx, cfg, c.String("namespace"), mcp.Operations(), log)
	defer api.Close()
	listener, err := control.Listen(wiring.SocketDir(cfg), api)
	if err != nil {
		log.Warn("the command line can't talk to this server", "why", err)
	} else {
		defer listener.Close()
	}
	var failed <-chan error
	if cfg.HTTP.Listen != "" {
		web, err := listenHTTP(ctx, cfg, served, api, log)
		switch {
		case err == nil:
			defer web.close()
			failed = web.door.Failed()
			api.SetAddress(web.door.Address())
			if background != nil {
				err = background.SetAddress(web.door.Address())
			}
			if err != nil {
				return err
			}
		case c.IsSet("listen"):
			return err
		default: // another server of this configuration has the address
			log.Warn("this server does not answer over HTTP", "why", err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		if stdio {
			ended <- mcp.New(served).Serve(ctx, inputEnd{pollable(p.In), p.LimitWrites}, p.Out)
			return
		}
		<-ctx.Done()
		ended <- nil
	}()
	select {
	case err = <-ended:
	case err = <-failed:
		if stdio {
			log.Error("nothing is answered over HTTP any more, only on standard input and output: start the server again", "error", err)
			api.SetAddress("")
			err = <-ended
		}
	}
	p.LimitWrites()
	if unopened, is := errors.AsType[*exit.Error](context.Cause(ctx)); is {
		return unopened
	}
	var stopped command.Interruption
	if errors.As(context.Cause(ctx), &stopped) {
		log.Info("ended", "signal", stopped.Signal) // a server that was asked to shut down has succeeded
		return nil
	}
	return err
}
