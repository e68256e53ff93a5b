package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

func (p *program) eventsCommand() *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "show what a running server does, as it happens",
		UsageText: "sandboxmcp events [-f] [--namespace NS] [--kind KIND] [--json] [--server PID]",
		Description: `It prints the last events that the server remembers, at most 1,000, and with -f those that come. Events
are for watching, and a slow reader loses some: what must not be lost is in sandboxmcp audit.

The kinds are: ` + strings.Join(event.Names(), " ") + `

Examples:
  sandboxmcp events -f --kind egress.denied --kind execution.failed
  sandboxmcp events --json`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with the events that come"},
			&cli.StringFlag{Name: "namespace", Usage: "only events of the namespace `NS`"},
			&cli.StringSliceFlag{Name: "kind", Usage: "only events of the kind `KIND`, such as egress.denied"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object a line"},
			serverFlag(),
		},
		Action: p.events,
	}
}

func (p *program) events(c *cli.Context) error {
	if err := noWords(c); err != nil {
		return err
	}
	q := control.EventQuery{Namespace: c.String("namespace"), Kinds: c.StringSlice("kind"), Follow: c.Bool("follow")}
	if err := event.Check(q.Kinds); err != nil {
		return usage("sandboxmcp events --help lists the kinds", "--kind: %v", err)
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := control.Dial(ctx, door(cfg), c.String("server"))
	switch {
	case errors.Is(err, control.ErrNone) && c.String("server") == "":
		return fail("sandboxmcp audit tail -f shows what is written to the log, by whomever", "no server runs: start one with sandboxmcp serve")
	case err != nil:
		return noServer(err, c.String("server"))
	}
	defer client.Close()
	return p.watch(ctx, client, q, c.Bool("json"))
}

// watch prints events until there are no more, the server ends, or a signal comes.
func (p *program) watch(ctx context.Context, client *control.Client, q control.EventQuery, asJSON bool) error {
	for line, err := range client.Events(ctx, q) {
		if err != nil {
			return err
		}
		if err := p.showEvent(line, asJSON); err != nil {
			return err
		}
	}
	if q.Follow && ctx.Err() == nil {
		p.say("the server has ended")
	}
	return nil
}

func (p *program) showEvent(line control.Line, asJSON bool) error {
	switch {
	case asJSON && line.Seq == 0:
		return writeJSON(p.stdout, line.Notice)
	case asJSON:
		return writeJSON(p.stdout, line.Event)
	case line.Seq == 0:
		p.say("%d events were lost here: they came faster than they were read", line.Dropped)
		return nil
	}
	_, err := io.WriteString(p.stdout, eventLine(line.Event))
	return err
}

// eventLine is an event for people. What is in it is not ours: nothing may reach a terminal as a command.
func eventLine(e event.Event) string {
	return fmt.Sprintf("%s  %-20s  %-10s  %-26s  %s\n", e.Time.Local().Format("15:04:05.000"),
		visible(e.Name), visible(e.Namespace), visible(e.Run), visible(matter(e)))
}

// matter is what matters most in an event, on one line.
func matter(e event.Event) string {
	text := func(key string) string {
		if v, ok := e.Data[key]; ok {
			return fmt.Sprint(v)
		}
		return ""
	}
	switch e.Name {
	case event.EgressRequested, event.EgressApproved, event.EgressDenied:
		return phrase(hostAndPort(text("name")+text("what"), text("port")), text("reason"))
	case event.VaultAccessed:
		return strings.Join(elements(e.Data["secrets"]), " ")
	case event.ResourceExceeded:
		return "limit of " + phrase(text("limit"), strings.Join(elements(e.Data["hit"]), " "))
	case event.ArtifactSigned:
		return text("artifacts") + " artifacts"
	case event.SessionCreated:
		return phrase(text("language"), text("backend"))
	case event.SessionKilled:
		return phrase(text("language"), text("why"))
	case event.PackageInstalled:
		return strings.Join(elements(e.Data["packages"]), " ")
	case event.QueueBackpressure:
		if text("busy") != "" {
			return "turned away: the queue is full"
		}
		return text("waiting") + " wait"
	}
	return phrase(text("language"), text("name"), runEnd(e.Data), text("reason"))
}

// runEnd is how a run ended, and how long its program took.
func runEnd(data map[string]any) string {
	how, _ := data["ended"].(string)
	switch how {
	case "":
		return ""
	case "exit":
		how = fmt.Sprintf("exit %v", data["exit_code"])
	case "signal":
		how = fmt.Sprint(data["signal"])
	}
	if ms, ok := asNumber(data["wall_ms"]); ok && ms > 0 {
		how += fmt.Sprintf(" in %.2f s", ms/1000)
	}
	return how
}

// asNumber takes one as it comes from JSON.
func asNumber(v any) (float64, bool) {
	n, ok := v.(interface{ Float64() (float64, error) })
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// elements are the elements of a list as they come from JSON.
func elements(v any) (all []string) {
	list, _ := v.([]any)
	for _, e := range list {
		all = append(all, fmt.Sprint(e))
	}
	return all
}

func hostAndPort(name, port string) string {
	if port == "" {
		return name
	}
	return name + ":" + port
}

// phrase puts those that there are on one line.
func phrase(all ...string) string {
	var b strings.Builder
	for _, w := range all {
		if w != "" && b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()
}
