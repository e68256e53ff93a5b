package outside

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/client"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

func (p commands) hostAccessCommand() *cli.Command {
	return &cli.Command{
		Name:      "access",
		Usage:     "list, request, allow and revoke access to this machine",
		UsageText: "sandboxmcp host access list|request|allow|revoke ...",
		Description: `A pattern is compared with a command word by word: * matches one word that does not begin with - or @ and contains no =,
and a last ** any number of these. Shells, interpreters and other programs that start programs can only be allowed by
their exact words. Permanent permissions are in the configuration, as host.allowed, host.read and host.write; approvals
belong to a running server, and expire.

Example: sandboxmcp host access request "docker restart *"`,
		Subcommands: []*cli.Command{{
			Name: "list", Usage: "list allowed commands and directories",
			UsageText:   "sandboxmcp host access list [--json] [--server PID]",
			Description: "Example: sandboxmcp host access list --json",
			Flags:       []cli.Flag{command.JSONFlag(), client.ServerFlag()},
			Action:      command.NoWords(wiring.WithConfig(p.hostAccessList)),
		}, {
			Name: "request", Usage: "request access, as an agent would",
			UsageText: "sandboxmcp host access request PATTERN [--kind command|read|write] [--for DURATION] [--namespace NAMESPACE]",
			Description: `The request waits in the running server until somebody approves or denies it; on a terminal it is asked at once.

Example: sandboxmcp host access request "docker restart *"`,
			Flags:  accessFlags(),
			Action: p.hostRequest,
		}, {
			Name: "allow", Usage: "allow access for a limited time",
			UsageText:   "sandboxmcp host access allow PATTERN [--kind command|read|write] [--for DURATION] [--namespace NAMESPACE]",
			Description: `Example: sandboxmcp host access allow "docker restart *" --for 1h`,
			Flags:       accessFlags(),
			Action:      p.hostAllow,
		}, {
			Name: "revoke", Usage: "revoke approvals",
			UsageText:   "sandboxmcp host access revoke ID|PATTERN [--reason TEXT] [--json] [--server PID]",
			Description: `Example: sandboxmcp host access revoke "docker restart *"`,
			Flags:       client.AnswerFlags(),
			Action: command.ExactlyOneWord(p.hostRevoke, "sandboxmcp host access list",
				"revoke needs the id of one approval, or its pattern in quotes"),
		}},
	}
}

func accessFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kind", Usage: "`KIND`: command, or read or write for a directory", Value: "command"},
		&cli.DurationFlag{Name: "for", Usage: "allow it for `DURATION`, such as 10m or 8h: 24h at most", Value: approval.DefaultFor},
		&cli.StringFlag{Name: "reason", Usage: "reason `TEXT` for the approver and the log"},
		client.ServerNamespaceFlag(), command.JSONFlag(), client.ServerFlag(),
	}
}

// requestedAccess returns the request in the command line. It fails if the configuration would refuse the request.
func requestedAccess(c *cli.Context) (control.GrantRequest, error) {
	g := control.GrantRequest{Kind: approval.Host, Reason: c.String("reason"), Seconds: c.Duration("for").Seconds()}
	if c.NArg() != 1 {
		return g, exit.Usage(`sandboxmcp host access `+c.Command.Name+` "docker restart *"`, "%s needs one pattern, in quotes", c.Command.Name)
	}
	if held := c.Duration("for"); held <= 0 || held > approval.MaxFor {
		return g, exit.Usage("--for 1h", "--for must be positive and at most %v, not %v", approval.MaxFor, held)
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return g, err
	}
	onHost, err := wiring.Host(cfg)
	if err == nil {
		g.What, err = onHost.Describe(c.String("kind"), c.Args().First())
	}
	return g, exit.AsFailure(err)
}

func (p commands) hostAllow(c *cli.Context) error {
	g, err := requestedAccess(c)
	if err != nil {
		return err
	}
	return client.WithServer(c, func(ctx context.Context, server *control.Client) error {
		g.Namespace = client.ServerNamespace(c, server)
		held, err := control.Call(ctx, server, control.GiveGrant, g)
		switch {
		case errors.Is(err, approval.ErrRoot):
			return exit.Fail("sandboxmcp host access request asks root for it", "the configuration leaves approvals to root")
		case err != nil:
			return err
		}
		return p.Printf(c, held, "allowed to %s, for the namespace %s until %s; take it back with sandboxmcp host access revoke %s\n",
			terminal.Visible(g.What), terminal.Visible(held.Question.Namespace), held.Until.Local().Format(time.DateTime),
			terminal.Visible(held.Question.ID))
	})
}

func (p commands) hostRequest(c *cli.Context) error {
	g, err := requestedAccess(c)
	if err != nil {
		return err
	}
	return client.WithServer(c, func(ctx context.Context, server *control.Client) error {
		g.Namespace = client.ServerNamespace(c, server)
		q, err := control.Call(ctx, server, control.OpenApproval, g)
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return terminal.WriteJSON(p.Out, q)
		}
		tty := console.Open()
		defer tty.Close()
		if v, answered := tty.Decide(ctx, q); answered {
			return client.SubmitVerdict(ctx, p.Streams, c, server, q.ID, v, "sandboxmcp approvals")
		}
		_, err = fmt.Fprintf(p.Out, "asked to %s, for the namespace %s; until %s it waits for\n  sandboxmcp approve %s\n",
			terminal.Visible(q.What), terminal.Visible(q.Namespace), q.Expires.Local().Format(time.DateTime), terminal.Visible(q.ID))
		return err
	})
}

func (p commands) hostRevoke(c *cli.Context) error {
	word := c.Args().First()
	return client.WithApprovals(c, approval.Host, func(ctx context.Context, all client.Approvals) error {
		all.Waiting = nil // sandboxmcp deny handles these
		n, err := all.Deny(ctx, p.Streams, c, "sandboxmcp host access list", func(q approval.Question) bool { return matchesGrant(word, q) })
		if err == nil && n == 0 {
			err = exit.Fail("sandboxmcp host access list", "no approval on the host matches %s", terminal.Visible(word))
		}
		return err
	})
}

// hostAccess are the permissions on the host in the JSON output.
type hostAccess struct {
	Enabled bool            `json:"enabled"`
	Allowed []host.Access   `json:"allowed"` // by the configuration
	Held    []control.Grant `json:"held"`    // approvals of running servers
	Servers int             `json:"servers"`
	Blocked []string        `json:"blocked"` // patterns in the configuration, which nobody can allow
}

func (p commands) hostAccessList(_ context.Context, c *cli.Context, cfg config.Config) error {
	onHost, err := wiring.Host(cfg)
	if err != nil {
		return err
	}
	all := hostAccess{Enabled: onHost.Enabled, Allowed: onHost.Access(), Held: []control.Grant{}, Blocked: []string{}}
	for _, one := range onHost.Policy.Blocked() {
		all.Blocked = append(all.Blocked, one.String())
	}
	err = client.WithApprovals(c, approval.Host, func(_ context.Context, known client.Approvals) error {
		all.Servers = known.Servers
		for _, g := range known.Approved {
			all.Held = append(all.Held, g.Grant)
		}
		return nil
	})
	// without a server there are no approvals
	if _, none := errors.AsType[*exit.Error](err); err != nil && (!none || c.String("server") != "") {
		return err
	}
	return p.Print(c, all, all.writeText)
}

func (all *hostAccess) writeText(w io.Writer) error {
	if !all.Enabled {
		fmt.Fprintln(w, "host access is off: host.enabled: true in the configuration turns it on")
	}
	t := terminal.NewTable(w, terminal.Columns("KIND", "WHAT", "NAMESPACE", "UNTIL", "FROM")...)
	for _, a := range all.Allowed {
		t.Row(a.Kind, a.Pattern, "all", "", a.From)
	}
	for _, g := range all.Held {
		verb, what, _ := strings.Cut(g.Question.What, " ")
		t.Row(strings.Replace(verb, "run", "command", 1), what, g.Question.Namespace, g.Until.Local().Format(time.DateTime),
			"approval "+g.Question.ID)
	}
	t.Empty = "nothing is allowed"
	if err := t.Close(); err != nil {
		return err
	}
	if all.Servers == 0 {
		fmt.Fprintln(w, "no server is running, so nothing is approved")
	}
	for _, one := range all.Blocked {
		fmt.Fprintf(w, "no approval can allow %s: the configuration blocks it\n", terminal.Visible(one))
	}
	return nil
}

// matchesGrant reports whether word is the id of an approval, or its command or path.
func matchesGrant(word string, q approval.Question) bool {
	_, what, _ := strings.Cut(q.What, " ")
	if one, err := host.ParsePattern(word); err == nil && one.String() == what {
		return true
	}
	return strings.EqualFold(word, q.ID) || word == what || word == q.What
}
