package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

func (p commands) eventsCommand() *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "print the events of a running server as they happen",
		UsageText: "sandboxmcp events [-f] [--namespace NS] [--kind KIND] [--json] [--server PID]",
		Description: `It prints up to 1,000 recent events, and with -f follows new ones. Events are for monitoring, and a slow
reader loses some: use sandboxmcp audit for a complete record.

The kinds are: ` + strings.Join(event.Names(), " ") + `

Examples:
  sandboxmcp events -f --kind egress.denied --kind execution.failed
  sandboxmcp events --json`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "follow new events"},
			&cli.StringFlag{Name: "namespace", Usage: "only events of the namespace `NS`"},
			&cli.StringSliceFlag{Name: "kind", Usage: "only events of the kind `KIND`, such as egress.denied"},
			command.JSONFlag(),
			ServerFlag(),
		},
		Action: command.NoWords(p.events),
	}
}

func (p commands) events(c *cli.Context) error {
	q := control.EventQuery{Namespace: c.String("namespace"), Kinds: c.StringSlice("kind"), Follow: c.Bool("follow")}
	if err := event.Check(q.Kinds); err != nil {
		return exit.Usage("sandboxmcp events --help lists the kinds", "--kind: %v", err)
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	client, err := dial(ctx, cfg, c.String("server"))
	switch {
	case errors.Is(err, control.ErrNone) && c.String("server") == "":
		return exit.Fail("sandboxmcp audit tail -f follows the log without a server", "no server is running: start one with sandboxmcp serve")
	case err != nil:
		return noServerError(err, c.String("server"))
	}
	defer client.Close()
	return p.watch(ctx, client, q, c.Bool("json"))
}

// watch prints events until the stream or the server ends, or a signal arrives.
func (p commands) watch(ctx context.Context, client *control.Client, q control.EventQuery, asJSON bool) error {
	for line, err := range client.Events(ctx, q) {
		if err != nil {
			return err
		}
		if err := p.showEvent(line, asJSON); err != nil {
			return err
		}
	}
	if q.Follow && ctx.Err() == nil {
		p.Messagef("the server has ended")
	}
	return nil
}

func (p commands) showEvent(line control.Line, asJSON bool) error {
	switch {
	case asJSON && line.Seq == 0:
		return terminal.WriteJSON(p.Out, line.Notice)
	case asJSON:
		return terminal.WriteJSON(p.Out, line.Event)
	case line.Unwritten > 0:
		p.Messagef("event %d can't be shown: this is a bug in sandboxmcp", line.Unwritten)
		return nil
	case line.Seq == 0:
		p.Messagef("%d events were lost: they arrived faster than they were read", line.Dropped)
		return nil
	}
	e := line.Event // events are untrusted: no text may reach a terminal unescaped
	text := fmt.Sprintf("%s  %-20s  %-10s  %-26s  %s\n", e.Time.Local().Format("15:04:05.000"),
		terminal.Visible(e.Name), terminal.Visible(e.Namespace), terminal.Visible(e.Run), terminal.Visible(eventSummary(e)))
	if columns := terminal.Width(p.Out); columns > 0 {
		text = terminal.Cut(strings.TrimSuffix(text, "\n"), columns) + "\n"
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

// eventSummary summarises an event in the words of the audit log's row of the same kind. Queue events have no row.
func eventSummary(e event.Event) string {
	if e.Name == event.QueueBackpressure {
		if waiting, ok := e.Data["waiting"]; ok {
			return fmt.Sprintf("%v wait", waiting)
		}
		return "turned away: the queue is full"
	}
	data, err := json.Marshal(e.Data)
	if err != nil {
		return ""
	}
	return facts.Summary(audit.Row{Kind: e.Name, Data: data})
}
