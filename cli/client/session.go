package client

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	review "github.com/sandboxmcp/sandboxmcp/cli/changes"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/run"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

func (p commands) sessionCommand() *cli.Command {
	return &cli.Command{
		Name:      "session",
		Usage:     "work with the sessions of a running server: list, create, exec, attach, put, get, copy, stats, kill",
		UsageText: "sandboxmcp session COMMAND ...",
		Description: `A session is a sandbox whose interpreter keeps running: variables, imports and files persist. Agents and
people share sessions. A unique prefix of an id stands for the id.

Example: sandboxmcp session create --language python && sandboxmcp session list`,
		Subcommands: []*cli.Command{p.sessionListCommand(), p.sessionCreateCommand(), p.sessionExecCommand(), p.sessionAttachCommand(),
			p.sessionPutCommand(), p.sessionGetCommand(), p.sessionCopyCommand(), p.sessionStatsCommand(), p.sessionKillCommand()},
	}
}

func (p commands) sessionListCommand() *cli.Command {
	return &cli.Command{
		Name:        "list",
		Usage:       "list sessions",
		UsageText:   "sandboxmcp session list [--namespace NS] [--all] [--json] [--server PID]",
		Description: `Example: sandboxmcp session list --all`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "namespace", Usage: "only those of the namespace `NS`"},
			&cli.BoolFlag{Name: "all", Usage: "include recently ended ones, with the reason"},
			command.JSONFlag(), ServerFlag(),
		},
		Action: command.NoWords(p.sessionList),
	}
}

func (p commands) sessionList(c *cli.Context) error {
	return CallServer(c, control.ListSessions, control.InNamespace{Namespace: c.String("namespace")}, func(all []session.Info) error {
		list := []session.Info{}
		for _, i := range all {
			if i.State != "dead" || c.Bool("all") {
				list = append(list, i)
			}
		}
		columns := []terminal.Column{{Name: "ID", Whole: true}, {Name: "STATE"}, {Name: "LANGUAGE"}, {Name: "NAMESPACE"},
			{Name: "CELLS", Right: true}, {Name: "USED"}, {Name: "BACKEND", Spare: true}}
		return command.Table(p.Streams, c, list, "there are no sessions", columns, func(i session.Info) []string {
			state := i.State
			if i.Ended != "" {
				state += " (" + i.Ended + ")"
			}
			return []string{i.ID, state, i.Language, i.Namespace, fmt.Sprint(i.Cells), terminal.Ago(time.Since(i.Used)), i.Backend}
		})
	})
}

func (p commands) sessionKillCommand() *cli.Command {
	return &cli.Command{
		Name:      "kill",
		Usage:     "end a session and its programs",
		UsageText: "sandboxmcp session kill SESSION|--id SESSION [--json] [--server PID]",
		Description: `Its variables and files are lost. The log records who ended it.

Example: sandboxmcp session kill 01K9ZB5W7Q`,
		Flags:  []cli.Flag{sessionFlag(), command.JSONFlag(), ServerFlag()},
		Action: p.sessionKill,
	}
}

func (p commands) sessionKill(c *cli.Context) error {
	id, _, err := sessionArgument(c, 0)
	if err != nil {
		return err
	}
	return CallServer(c, control.EndSession, control.OfSession{ID: id}, func(info session.Info) error {
		err := p.Printf(c, info, "session %s has ended after %s; its variables and files are gone\n", terminal.Visible(info.ID),
			terminal.Count(info.Cells, "cell"))
		switch {
		case c.Bool("json"):
		case info.ChangesFailed != "":
			p.Messagef("its changes could not be stored: %s", info.ChangesFailed)
		case info.Changes != nil:
			p.Messagef("%s", review.Summary(*info.Changes))
		}
		return err
	})
}

func limitFlags() []cli.Flag {
	return []cli.Flag{
		&cli.Int64Flag{Name: "ram", Usage: "memory limit in `MB`, for all processes together", DefaultText: serverLimitsText},
		&cli.Float64Flag{Name: "cpu", Usage: "limit of `CORES`", DefaultText: serverLimitsText},
		&cli.Float64Flag{Name: "timeout", Usage: "time limit of a run or cell in `SECONDS`", DefaultText: serverLimitsText},
		&cli.IntFlag{Name: "processes", Usage: "allow `N` processes and threads, not counting the interpreter's", DefaultText: serverLimitsText},
		&cli.Int64Flag{Name: "disk", Usage: "disk limit in `MB`, for /workspace, /tmp and /dev/shm together", DefaultText: serverLimitsText},
		&cli.Int64Flag{Name: "output", Usage: "store at most `BYTES` of stdout, and as many of stderr", DefaultText: serverLimitsText},
	}
}

// requestedLimits returns the limits in the command line; the others are zero.
func requestedLimits(c *cli.Context) (b pipeline.Bounds, err error) {
	var l backends.Limits
	err = run.ReadLimits(c, &l)
	return pipeline.Bounds{Limits: l, Output: c.Int64("output")}, err
}

func (p commands) sessionCreateCommand() *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "start a session and print its id",
		UsageText: "sandboxmcp session create [--language LANGUAGE] [--namespace NS] [--allow DOMAIN] [--json] [--server PID] ...",
		Description: `It prints only the id. The session ends by session kill, with the server, or when it is idle or too old.

Example: sandboxmcp session create --language python --namespace my-agent --ram 1024`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "language", Usage: "`LANGUAGE`: python, node, shell or r", Value: "python"},
			&cli.StringFlag{Name: "namespace", Usage: "`NAMESPACE` of the session", DefaultText: serverNamespaceText},
			&cli.StringFlag{Name: "backend", Usage: "isolation backend `NAME`: process, podman, docker or kubernetes", DefaultText: "the server's"},
			&cli.StringFlag{Name: "profile", Usage: "`NAME` of the containment profile", DefaultText: "the server's"},
			&cli.StringFlag{Name: "workspace", Usage: "the server's workspace `NAME` is its /workspace, and its changes are proposed"},
			&cli.StringSliceFlag{Name: "allow", Usage: "allow connections only to `DOMAIN[:PORT]`, if the configuration or a person allows it"},
			&cli.BoolFlag{Name: "no-network", Usage: "allow no connections, whatever the configuration allows"},
			&cli.Float64Flag{Name: "idle", Usage: "end it after `SECONDS` without a cell", DefaultText: "the server's"},
			&cli.Float64Flag{Name: "lifetime", Usage: "end it after `SECONDS` in any case", DefaultText: "the server's"},
			command.JSONFlag(), ServerFlag(),
		}, limitFlags()...),
		Action: command.NoWords(p.sessionCreate),
	}
}

func (p commands) sessionCreate(c *cli.Context) error {
	if c.Bool("no-network") && c.IsSet("allow") {
		return exit.Usage("leave one of them out", "--no-network and --allow contradict each other")
	}
	for _, name := range []string{"idle", "lifetime"} {
		if c.IsSet(name) && !command.IsPositive(c, name) {
			return exit.Usage("leave it out for the default", "--%s must be more than 0", name)
		}
	}
	b, err := requestedLimits(c)
	if err != nil {
		return err
	}
	w := control.NewSession{
		Language: c.String("language"), Backend: c.String("backend"), Profile: c.String("profile"),
		Allow: c.StringSlice("allow"), NoNetwork: c.Bool("no-network"), Limits: pipeline.LimitsOf(b),
		Idle: c.Float64("idle"), Lifetime: c.Float64("lifetime"), Workspace: c.String("workspace"),
	}
	return WithServerHint(c, func(ctx context.Context, client *control.Client) error {
		w.Namespace = ServerNamespace(c, client)
		info, err := control.Call(ctx, client, control.CreateSession, w)
		if err == nil {
			err = p.Printf(c, info, "%s\n", terminal.Visible(info.ID))
		}
		if err == nil && terminal.IsTerminal(p.Err) && !c.Bool("json") {
			p.Messagef("%s session in namespace %s; sandboxmcp session attach %s", info.Language, info.Namespace, info.ID)
		}
		return err
	})
}

func (p commands) sessionStatsCommand() *cli.Command {
	return &cli.Command{
		Name:      "stats",
		Usage:     "show the resource usage of sessions",
		UsageText: "sandboxmcp session stats [SESSION|--id SESSION] [--namespace NS] [--json] [--server PID]",
		Description: `Memory and disk are current, CPU time is since the start of the session.

Example: sandboxmcp session stats 01K9ZB5W7Q`,
		Flags: []cli.Flag{sessionFlag(), &cli.StringFlag{Name: "namespace", Usage: "only those of the namespace `NS`"},
			command.JSONFlag(), ServerFlag()},
		Action: p.sessionStats,
	}
}

func (p commands) sessionStats(c *cli.Context) error {
	id := ""
	if c.NArg() > 0 || c.IsSet("id") {
		var err error
		if id, _, err = sessionArgument(c, 0); err != nil {
			return err
		}
	}
	of := control.OfLimits{InNamespace: control.InNamespace{Namespace: c.String("namespace")}, Session: id}
	return CallServer(c, control.ListUsage, of, func(list []control.Used) error {
		if id != "" && len(list) == 1 {
			var b strings.Builder
			writeUsage(&b, list[0].Info, list[0].Usage)
			return p.Printf(c, list[0], "%s", b.String())
		}
		columns := []terminal.Column{{Name: "ID", Whole: true}, {Name: "STATE"}, {Name: "MEMORY"}, {Name: "CPU", Right: true},
			{Name: "PROCESSES", Right: true},
			{Name: "DISK", Right: true}, {Name: "CELLS", Right: true}, {Name: "USED"}}
		return command.Table(p.Streams, c, list, "there are no sessions", columns, func(u control.Used) []string {
			return []string{u.ID, u.State, fmt.Sprintf("%s of %d MB", formatMB(u.Usage.MemoryBytes), u.Limits.RAM),
				fmt.Sprintf("%.1f s", u.Usage.CPUSeconds),
				fmt.Sprint(u.Usage.Processes), formatMB(u.Usage.DiskBytes) + " MB", fmt.Sprint(u.Cells), terminal.Ago(time.Since(u.Used))}
		})
	})
}

func formatMB(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// writeUsage prints the facts and the resource usage of a session.
func writeUsage(b io.Writer, i session.Info, u pipeline.CurrentUsage) {
	fmt.Fprintf(b, "session %s: %s, %s\n", terminal.Visible(i.ID), terminal.Visible(i.Language), terminal.Visible(i.State))
	terminal.Fact(b, "namespace", i.Namespace)
	terminal.Fact(b, "contained by", fmt.Sprintf("%s, %s: %s", i.Backend, i.Profile, strings.Join(i.Layers, " ")))
	terminal.Fact(b, "memory", fmt.Sprintf("%s MB of %d", formatMB(u.MemoryBytes), i.Limits.RAM))
	terminal.Fact(b, "CPU", fmt.Sprintf("%.1f s, on at most %s", u.CPUSeconds, formatCores(i.Limits.CPU)))
	terminal.Fact(b, "processes", fmt.Sprintf("%d of %d", u.Processes, i.Limits.Processes))
	terminal.Fact(b, "disk", fmt.Sprintf("%s MB of %d", formatMB(u.DiskBytes), i.Limits.Disk))
	terminal.Fact(b, "a cell has", fmt.Sprintf("%g s, and %d bytes of output", i.Limits.Wall, i.Limits.Output))
	terminal.Fact(b, "cells", fmt.Sprint(i.Cells))
	terminal.Fact(b, "used", fmt.Sprintf("%s; it ends after %s without a cell", terminal.Ago(time.Since(i.Used)), formatSeconds(i.Idle)))
	terminal.Fact(b, "began", fmt.Sprintf("%s; it ends after %s in any case", i.Created.Local().Format(time.DateTime),
		formatSeconds(i.Lifetime)))
	for _, r := range i.Restarts {
		terminal.Fact(b, "variables lost", r.Time.Local().Format(time.DateTime)+": "+r.Why)
	}
}

// formatSeconds formats a number of seconds for people.
func formatSeconds(seconds float64) string {
	return (time.Duration(seconds * float64(time.Second))).String()
}

func (p commands) inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show variables, files and environment of a session",
		UsageText: "sandboxmcp inspect SESSION|--id SESSION [--json] [--server PID]",
		Description: `Secrets are masked.

Example: sandboxmcp inspect 01K9ZB5W7Q`,
		Flags:  []cli.Flag{sessionFlag(), command.JSONFlag(), ServerFlag()},
		Action: p.inspect,
	}
}

func (p commands) inspect(c *cli.Context) error {
	id, _, err := sessionArgument(c, 0)
	if err != nil {
		return err
	}
	return CallServer(c, control.InspectSession, control.OfSession{ID: id}, func(state session.State) error {
		return p.Print(c, state, func(w io.Writer) error { return showState(w, state) })
	})
}

func showState(w io.Writer, s session.State) error {
	writeUsage(w, s.Info, s.Usage)
	if s.Note != "" {
		terminal.Fact(w, "note", s.Note)
	}
	for _, e := range s.Env {
		terminal.Fact(w, "environment", e)
	}
	if len(s.Variables) > 0 {
		fmt.Fprintln(w)
	}
	t := terminal.NewTable(w, terminal.Columns("VARIABLE", "TYPE", "SIZE", "VALUE")...)
	for _, v := range s.Variables {
		size := ""
		if v.Unit != "" {
			size = fmt.Sprintf("%d %s", v.Size, v.Unit)
		}
		t.Row(v.Name, v.Type, size, v.Text)
	}
	if err := t.Close(); err != nil || len(s.Files) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t = terminal.NewTable(w, terminal.Column{Name: "BYTES", Right: true}, terminal.Column{Name: "CHANGED"}, terminal.Column{Name: "FILE"})
	for _, f := range s.Files {
		t.Row(fmt.Sprint(f.Size), f.Changed.Local().Format(time.DateTime), f.Name)
	}
	return t.Close()
}
