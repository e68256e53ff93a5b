package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p *program) egressCommand() *cli.Command {
	return &cli.Command{
		Name:      "egress",
		Usage:     "allow a name, and list, approve and deny what programs want to connect to",
		UsageText: "sandboxmcp egress DOMAIN [--namespace NS] [--for DURATION] [--reason TEXT] [--json] [--server PID]\nsandboxmcp egress list|approve|deny ...",
		Description: `With a DOMAIN it lets the programs of a namespace connect there for a while, without having been asked: example.com,
'*.example.com' or db.example.com:5432.

With network: ask in the configuration, the first connection to a name that is neither allowed nor denied
waits for a person. Where several servers run, the commands mean all of them.

Examples:
  sandboxmcp egress api.example.com --namespace team-a --for 1h
  sandboxmcp egress list`,
		Flags: giveFlags(),
		Subcommands: []*cli.Command{{
			Name:        "list",
			Usage:       "list the names that programs wait for, and those that were approved",
			UsageText:   "sandboxmcp egress list [--json] [--server PID]",
			Description: "Example: sandboxmcp egress list --json",
			Flags:       []cli.Flag{command.JSONFlag(), serverFlag()},
			Action:      command.NoWords(p.egressList),
		}, {
			Name:      "approve",
			Usage:     "let a program connect to the name that it waits for",
			UsageText: "sandboxmcp egress approve ID [--for run|session|DURATION] [--reason TEXT] [--json] [--server PID]",
			Description: `It holds for all of the namespace and for as long as was asked, or with --for for less: the run or the
session that asked, or a shorter time.

Example: sandboxmcp egress approve 01K9ZB5W7Q3M8Y2D4F6H8J0K2M --for session`,
			Flags:  append(answerFlags(), forFlag()),
			Action: p.egressApprove,
		}, {
			Name:      "deny",
			Usage:     "deny what a program waits for, or take approvals back",
			UsageText: "sandboxmcp egress deny ID|NAME ... [--reason TEXT] [--json] [--server PID]",
			Description: `A NAME is all that waits for it, or was approved for it: example.com is also example.com:5432. Connections
that stand already go on.

Example: sandboxmcp egress deny example.com`,
			Flags:  answerFlags(),
			Action: p.egressDeny,
		}},
		Action: p.egressGive,
	}
}

func (p *program) egressList(c *cli.Context) error {
	return withEgress(c, func(_ context.Context, all known) error {
		if c.Bool("json") {
			return terminal.WriteJSON(p.Out, all)
		}
		return showEgress(p.Out, all, time.Now())
	})
}

func showEgress(w io.Writer, all known, now time.Time) error {
	var b strings.Builder
	if len(all.Waiting) == 0 {
		b.WriteString("nothing waits for an answer\n")
	}
	for _, q := range all.Waiting {
		showQuestion(&b, q.Question, now, "sandboxmcp egress approve")
		b.WriteByte('\n')
	}
	if len(all.Approved) == 0 {
		b.WriteString("nothing is approved\n")
	}
	for _, g := range all.Approved {
		q := g.Question
		fmt.Fprintf(&b, "%s: %s is approved\n", terminal.Visible(q.ID), terminal.Visible(q.What))
		terminal.Fact(&b, "namespace", q.Namespace)
		terminal.Fact(&b, "holds", holds(q, g.Scope, g.Until))
		if q.CodeSHA256 != "" {
			terminal.Fact(&b, "for code", q.CodeSHA256)
		}
		terminal.Fact(&b, "approved by", strings.TrimSpace(g.User+" ("+g.By+") "+g.Reason))
		terminal.Fact(&b, "take back with", "sandboxmcp egress deny "+q.ID)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// egressApprove looks the question up first: an id that somebody was told is of a name to connect to
// must not turn out to be of a command on the host.
func (p *program) egressApprove(c *cli.Context) error {
	if c.NArg() != 1 {
		return exit.Usage("sandboxmcp egress list", "approve needs the id of one question")
	}
	v, err := verdict(c, true)
	if err != nil {
		return err
	}
	id := c.Args().First()
	return withEgress(c, func(ctx context.Context, all known) error {
		for _, q := range all.Waiting {
			if strings.EqualFold(q.ID, id) {
				return p.giveAs(ctx, c, q.client, q.ID, v, "sandboxmcp egress list")
			}
		}
		return exit.Fail("sandboxmcp egress list", "no connection waits for an answer under %s, or not any more", terminal.Visible(id))
	})
}

func (p *program) egressDeny(c *cli.Context) error {
	if c.NArg() == 0 {
		return exit.Usage("sandboxmcp egress list", "deny needs ids or names")
	}
	v := control.Verdict{Reason: c.String("reason")}
	return withEgress(c, func(ctx context.Context, all known) error {
		for _, word := range c.Args().Slice() {
			n := 0
			for _, q := range all.Waiting {
				if meant(word, q.Question) {
					n++
					if err := p.giveAs(ctx, c, q.client, q.ID, v, "sandboxmcp egress list"); err != nil {
						return err
					}
				}
			}
			for _, g := range all.Approved {
				if meant(word, g.Question) {
					n++
					if err := p.giveAs(ctx, c, g.client, g.Question.ID, v, "sandboxmcp egress list"); err != nil {
						return err
					}
				}
			}
			if n == 0 {
				return exit.Fail("sandboxmcp egress list", "nothing waits for %s, and nothing of that id or name is approved", terminal.Visible(word))
			}
		}
		return nil
	})
}

// meant says whether a word is the id of a question, or a name that it asks for, on any port.
func meant(word string, q approval.Question) bool {
	host, _, _ := strings.Cut(q.What, ":")
	return strings.EqualFold(word, q.ID) || strings.EqualFold(word, q.What) || strings.EqualFold(word, host)
}
