package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

func (p commands) egressCommand() *cli.Command {
	return &cli.Command{
		Name:  "egress",
		Usage: "allow a host, and list, approve or deny connections that programs request",
		UsageText: "sandboxmcp egress DOMAIN [--namespace NS] [--for DURATION] [--reason TEXT] [--json] [--server PID]\nsandboxmcp egress " +
			"list|approve|deny ...",
		Description: `With a DOMAIN it allows the programs of a namespace to connect there for a limited time: example.com,
'*.example.com' or db.example.com:5432.

With network: ask in the configuration, the first connection to a host that is neither allowed nor denied
waits for a person. Without --server, the commands apply to all running servers.

Examples:
  sandboxmcp egress api.example.com --namespace team-a --for 1h
  sandboxmcp egress list`,
		Flags: []cli.Flag{
			ServerNamespaceFlag(),
			&cli.DurationFlag{Name: "for", Usage: "allow it for `DURATION`, such as 10m or 8h: 24h at most", Value: approval.DefaultFor},
			&cli.StringFlag{Name: "reason", Usage: "`TEXT` for the log"},
			command.JSONFlag(), ServerFlag(),
		},
		Subcommands: []*cli.Command{{
			Name:        "list",
			Usage:       "list requested and approved hosts",
			UsageText:   "sandboxmcp egress list [--json] [--server PID]",
			Description: "Example: sandboxmcp egress list --json",
			Flags:       []cli.Flag{command.JSONFlag(), ServerFlag()},
			Action:      command.NoWords(p.egressList),
		}, {
			Name:      "approve",
			Usage:     "approve a connection that a program waits for",
			UsageText: "sandboxmcp egress approve ID [--for run|session|DURATION] [--reason TEXT] [--json] [--server PID]",
			Description: `The approval covers the whole namespace for the requested time. --for limits it to the run or session
that requested it, or to a shorter time.

Example: sandboxmcp egress approve 01K9ZB5W7Q3M8Y2D4F6H8J0K2M --for session`,
			Flags:  append(AnswerFlags(), forFlag()),
			Action: command.ExactlyOneWord(p.egressApprove, "sandboxmcp egress list", "approve needs the id of one question"),
		}, {
			Name:      "deny",
			Usage:     "deny connections, or revoke approvals",
			UsageText: "sandboxmcp egress deny ID|NAME ... [--reason TEXT] [--json] [--server PID]",
			Description: `NAME matches all its ports: example.com also matches example.com:5432. Open connections stay open.

Example: sandboxmcp egress deny example.com`,
			Flags:  AnswerFlags(),
			Action: p.egressDeny,
		}},
		Action: command.ExactlyOneWord(p.egressAllow, "sandboxmcp egress list, or sandboxmcp egress example.com",
			"egress needs to know what to do: list, approve, deny, or one DOMAIN to allow"),
	}
}

func (p commands) egressList(c *cli.Context) error {
	return WithApprovals(c, approval.Egress, func(_ context.Context, all Approvals) error {
		return p.Printf(c, all, "%s", all)
	})
}

// String formats all questions and approvals for people.
func (all Approvals) String() string {
	var b strings.Builder
	if len(all.Waiting) == 0 {
		b.WriteString("no connection is waiting\n")
	}
	for _, q := range all.Waiting {
		showQuestion(&b, q.Question, time.Now(), "sandboxmcp egress approve")
		b.WriteByte('\n')
	}
	if len(all.Approved) == 0 {
		b.WriteString("nothing is approved\n")
	}
	for _, g := range all.Approved {
		q := g.Question
		fmt.Fprintf(&b, "%s: %s is approved\n", terminal.Visible(q.ID), terminal.Visible(q.What))
		terminal.Fact(&b, "namespace", q.Namespace)
		terminal.Fact(&b, "holds", grantText(q, g.Scope, g.Until))
		if q.CodeSHA256 != "" {
			terminal.Fact(&b, "for code", q.CodeSHA256)
		}
		terminal.Fact(&b, "approved by", strings.TrimSpace(g.User+" ("+g.By+") "+g.Reason))
		terminal.Fact(&b, "take back with", "sandboxmcp egress deny "+q.ID)
	}
	return b.String()
}

// egressApprove checks the kind of the question first: an id that an agent presents as a host must not approve a
// command on this machine.
func (p commands) egressApprove(c *cli.Context) error {
	v, err := readVerdict(c, true)
	if err != nil {
		return err
	}
	id := c.Args().First()
	return WithApprovals(c, approval.Egress, func(ctx context.Context, all Approvals) error {
		for _, q := range all.Waiting {
			if strings.EqualFold(q.ID, id) {
				return SubmitVerdict(ctx, p.Streams, c, q.client, q.ID, v, "sandboxmcp egress list")
			}
		}
		return exit.Fail("sandboxmcp egress list", "no connection with the id %s is waiting", terminal.Visible(id))
	})
}

func (p commands) egressDeny(c *cli.Context) error {
	if c.NArg() == 0 {
		return exit.Usage("sandboxmcp egress list", "deny needs ids or names")
	}
	return WithApprovals(c, approval.Egress, func(ctx context.Context, all Approvals) error {
		for _, word := range c.Args().Slice() {
			n, err := all.Deny(ctx, p.Streams, c, "sandboxmcp egress list", func(q approval.Question) bool { return matchesQuestion(word, q) })
			if err == nil && n == 0 {
				err = exit.Fail("sandboxmcp egress list", "no request or approval matches %s", terminal.Visible(word))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Deny denies questions and revokes approvals that match meant, and returns their number. list is the command that
// lists them.
func (all Approvals) Deny(ctx context.Context, p *command.Streams, c *cli.Context, list string, meant func(approval.Question) bool) (n int,
	err error) {
	known := slices.Clone(all.Waiting)
	for _, g := range all.Approved {
		known = append(known, openQuestion{g.Question, g.Server, g.client})
	}
	for _, q := range known {
		if !meant(q.Question) {
			continue
		}
		if err := SubmitVerdict(ctx, p, c, q.client, q.ID, control.Verdict{Reason: c.String("reason")}, list); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// matchesQuestion reports whether word is the id of a question, or its host on any port.
func matchesQuestion(word string, q approval.Question) bool {
	host, _, _ := strings.Cut(q.What, ":")
	return strings.EqualFold(word, q.ID) || strings.EqualFold(word, q.What) || strings.EqualFold(word, host)
}

// egressAllow allows a host that nobody has requested, on all selected servers.
func (p commands) egressAllow(c *cli.Context) error {
	domain := strings.ToLower(strings.TrimSpace(c.Args().First()))
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	held := c.Duration("for")
	switch err := checkAllowable(cfg, domain); {
	case err != nil:
		return err
	case held <= 0 || held > approval.MaxFor:
		return exit.Usage("--for 1h", "--for must be positive and at most %v, not %v", approval.MaxFor, held)
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	clients, err := ConnectServers(ctx, c)
	for _, client := range clients {
		defer client.Close()
	}
	if none, ok := errors.AsType[*exit.Error](err); ok && c.String("server") == "" && none.Hint == "" {
		return exit.Fail("for one run: sandboxmcp run FILE --allow "+domain+"; for good: egress.allow in the configuration", "%s", none.Text)
	}
	if err != nil {
		return err
	}
	grants, text := []activeApproval{}, ""
	for _, client := range clients {
		grant, err := control.Call(ctx, client, control.GiveGrant, control.GrantRequest{
			Kind: approval.Egress, What: domain, Namespace: ServerNamespace(c, client), Seconds: held.Seconds(), Reason: c.String("reason"),
		})
		if errors.Is(err, approval.ErrRoot) {
			return rootOnlyError(client, "egress "+terminal.ShellWord(domain))
		}
		if err != nil {
			return fmt.Errorf("server %s: %w", client.Server().Name, err)
		}
		grants = append(grants, activeApproval{grant, client.Server().Name, client})
		text += fmt.Sprintf("allowed %s for the namespace %s until %s; take it back with sandboxmcp egress deny %s\n",
			terminal.Visible(grant.Question.What), terminal.Visible(grant.Question.Namespace), grant.Until.Local().Format(time.DateTime),
			terminal.Visible(grant.Question.ID))
	}
	return p.Printf(c, grants, "%s", text)
}

// checkAllowable returns an error for hosts that no person can allow. A server also refuses hosts that its own configuration
// denies.
func checkAllowable(cfg config.Config, domain string) error {
	policy, err := egress.NewPolicy([]string{domain}, nil)
	if err != nil {
		return exit.Usage("sandboxmcp egress example.com, '*.example.com' or db.example.com:5432", "invalid destination %s: %v",
			terminal.Visible(domain), err)
	}
	if slices.Contains(policy.Ports(), backends.DNSPort) {
		return exit.Usage("sandboxmcp egress "+strings.TrimSuffix(domain, fmt.Sprint(":", backends.DNSPort)),
			"port %d is reserved for name lookups in sandboxes", backends.DNSPort)
	}
	out, err := wiring.Egress(cfg)
	if err != nil {
		return err
	}
	if by, denied := out.Policy.Denies(domain); denied {
		return exit.Fail("sandboxmcp config shows where egress.deny is set", "the configuration denies %s; no approval can allow it",
			terminal.Visible(by))
	}
	return nil
}

// Approvals holds the open questions and the approvals of one kind on all servers.
type Approvals struct {
	Waiting  []openQuestion   `json:"waiting"`
	Approved []activeApproval `json:"approved"`
	Servers  int              `json:"-"`
}

type openQuestion struct {
	approval.Question
	Server string `json:"server"`
	client *control.Client
}

type activeApproval struct {
	control.Grant
	Server string `json:"server"`
	client *control.Client
}

// WithApprovals calls f with the questions and approvals of the selected servers.
func WithApprovals(c *cli.Context, kind string, f func(context.Context, Approvals) error) error {
	ctx, stop := command.UntilSignal(c)
	defer stop()
	clients, err := ConnectServers(ctx, c)
	for _, client := range clients {
		defer client.Close()
	}
	if err != nil {
		return err
	}
	all := Approvals{Waiting: []openQuestion{}, Approved: []activeApproval{}, Servers: len(clients)}
	for _, client := range clients {
		if err := all.add(ctx, kind, client); err != nil {
			return fmt.Errorf("ask server %s: %w", client.Server().Name, err)
		}
	}
	return f(ctx, all)
}

// ConnectServers connects to the server that the command line names, or to all running ones.
func ConnectServers(ctx context.Context, c *cli.Context) ([]*control.Client, error) {
	cfg, err := wiring.Load(c)
	if err != nil {
		return nil, err
	}
	client, err := dial(ctx, cfg, c.String("server"))
	var several *control.Several
	if !errors.As(err, &several) {
		if err != nil {
			return nil, noServerError(err, c.String("server"))
		}
		return []*control.Client{client}, nil
	}
	var all []*control.Client
	for _, s := range several.Servers {
		client, err := control.Dial(ctx, wiring.SocketDir(cfg), s.Name)
		if errors.Is(err, control.ErrNone) { // it has ended meanwhile
			continue
		}
		if err != nil {
			return all, err
		}
		all = append(all, client)
	}
	return all, nil
}

func (k *Approvals) add(ctx context.Context, kind string, client *control.Client) error {
	questions, err := client.Approvals(ctx)
	if err != nil {
		return err
	}
	grants, err := client.Grants(ctx)
	if err != nil {
		return err
	}
	name := client.Server().Name
	for _, q := range questions {
		if q.Kind == kind {
			k.Waiting = append(k.Waiting, openQuestion{q, name, client})
		}
	}
	for _, g := range grants {
		if g.Question.Kind == kind {
			k.Approved = append(k.Approved, activeApproval{g, name, client})
		}
	}
	return nil
}
