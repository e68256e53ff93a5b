package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p *program) hostAccessCommand() *cli.Command {
	return &cli.Command{
		Name:      "access",
		Usage:     "list, ask for, give and take back what is allowed on this machine",
		UsageText: "sandboxmcp host access list|request|allow|revoke ...",
		Description: `A pattern is compared with a command word by word: * is one word that is no option, a last ** is any more, and a
* in a word is any characters but a slash. What is allowed for good is in the configuration, as host.allowed,
host.read and host.write; approvals are a running server's, and end.

Example: sandboxmcp host access request "docker restart *"`,
		Subcommands: []*cli.Command{{
			Name: "list", Usage: "list what is allowed, and what nobody can allow",
			UsageText:   "sandboxmcp host access list [--json] [--server PID]",
			Description: "Example: sandboxmcp host access list --json",
			Flags:       []cli.Flag{command.JSONFlag(), serverFlag()},
			Action:      command.NoWords(p.hostAccessList),
		}, {
			Name: "request", Usage: "ask for access, as an agent would",
			UsageText: "sandboxmcp host access request PATTERN [--kind command|read|write] [--for DURATION] [--namespace NAMESPACE]",
			Description: `The question waits in the running server until somebody approves or denies it; at a terminal it is asked at once.

Example: sandboxmcp host access request "docker restart *"`,
			Flags:  accessFlags(),
			Action: p.hostRequest,
		}, {
			Name: "allow", Usage: "allow what nobody has asked for, for a while",
			UsageText:   "sandboxmcp host access allow PATTERN [--kind command|read|write] [--for DURATION] [--namespace NAMESPACE]",
			Description: `Example: sandboxmcp host access allow "docker restart *" --for 1h`,
			Flags:       accessFlags(),
			Action:      p.hostAllow,
		}, {
			Name: "revoke", Usage: "take approvals back",
			UsageText:   "sandboxmcp host access revoke ID|PATTERN [--reason TEXT] [--json] [--server PID]",
			Description: `Example: sandboxmcp host access revoke "docker restart *"`,
			Flags:       answerFlags(),
			Action:      p.hostRevoke,
		}},
	}
}

func accessFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kind", Usage: "`KIND`: command, or read or write for a directory", Value: "command"},
		&cli.DurationFlag{Name: "for", Usage: "allow it for `DURATION`, such as 10m or 8h: 24h at most", Value: approval.DefaultFor},
		&cli.StringFlag{Name: "reason", Usage: "`TEXT` for whoever decides, and the log"},
		inServersNamespace(), command.JSONFlag(), serverFlag(),
	}
}

// requestedAccess is what the command line wants allowed. It is refused at once where the configuration would refuse it.
func requestedAccess(c *cli.Context) (control.GrantRequest, error) {
	g := control.GrantRequest{Kind: approval.Host, Reason: c.String("reason"), Seconds: c.Duration("for").Seconds()}
	if c.NArg() != 1 {
		return g, exit.Usage(`sandboxmcp host access `+c.Command.Name+` "docker restart *"`, "%s needs one pattern, in quotes", c.Command.Name)
	}
	if held := c.Duration("for"); held <= 0 || held > approval.MaxFor {
		return g, exit.Usage("--for 1h", "--for is more than nothing and at most %v, not %v", approval.MaxFor, held)
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return g, err
	}
	onHost, err := wiring.Host(cfg)
	if err == nil {
		g.What, err = onHost.Describe(c.String("kind"), c.Args().First())
	}
	return g, exit.NotDone(err)
}

func (p *program) hostAllow(c *cli.Context) error {
	g, err := requestedAccess(c)
	if err != nil {
		return err
	}
	return withServer(c, func(ctx context.Context, client *control.Client) error {
		g.Namespace = ofServer(c, client)
		held, err := client.Grant(ctx, g)
		switch {
		case errors.Is(err, approval.ErrRoot):
			return exit.Fail("sandboxmcp host access request asks root for it", "the configuration leaves approvals to root")
		case err != nil:
			return err
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, held)
		}
		_, err = fmt.Fprintf(p.Out, "allowed to %s, for the namespace %s until %s; take it back with sandboxmcp host access revoke %s\n",
			terminal.Visible(g.What), terminal.Visible(held.Question.Namespace), held.Until.Local().Format(time.DateTime), terminal.Visible(held.Question.ID))
		return err
	})
}

func (p *program) hostRequest(c *cli.Context) error {
	g, err := requestedAccess(c)
	if err != nil {
		return err
	}
	return withServer(c, func(ctx context.Context, client *control.Client) error {
		g.Namespace = ofServer(c, client)
		q, err := client.Ask(ctx, g)
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, q)
		}
		tty := console.Open()
		defer tty.Close()
		if v, answered := tty.Decide(ctx, q); answered {
			return p.give(ctx, client, q.ID, v, "sandboxmcp approvals")
		}
		_, err = fmt.Fprintf(p.Out, "asked to %s, for the namespace %s; until %s it waits for\n  sandboxmcp approve %s\n",
			terminal.Visible(q.What), terminal.Visible(q.Namespace), q.Expires.Local().Format(time.DateTime), terminal.Visible(q.ID))
		return err
	})
}

func (p *program) hostRevoke(c *cli.Context) error {
	if c.NArg() != 1 {
		return exit.Usage("sandboxmcp host access list", "revoke needs the id of one approval, or its pattern in quotes")
	}
	word := c.Args().First()
	return withServer(c, func(ctx context.Context, client *control.Client) error {
		held, err := client.Grants(ctx)
		if err != nil {
			return err
		}
		n := 0
		for _, g := range held {
			if g.Question.Kind != approval.Host || !meantOnHost(word, g.Question) {
				continue
			}
			n++
			if err := p.giveAs(ctx, c, client, g.Question.ID, control.Verdict{Reason: c.String("reason")}, "sandboxmcp host access list"); err != nil {
				return err
			}
		}
		if n == 0 {
			return exit.Fail("sandboxmcp host access list", "no approval on the host has the id or the pattern %s", terminal.Visible(word))
		}
		return nil
	})
}
