package cli

import (
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

// giveFlags are those of egress DOMAIN.
func giveFlags() []cli.Flag {
	return []cli.Flag{
		inServersNamespace(),
		&cli.DurationFlag{Name: "for", Usage: "allow it for `DURATION`, such as 10m or 8h: 24h at most", Value: approval.DefaultFor},
		&cli.StringFlag{Name: "reason", Usage: "`TEXT` for the log"},
		command.JSONFlag(), serverFlag(),
	}
}

// egressGive allows a name that nobody has asked for, on all servers that the command line means.
func (p *program) egressGive(c *cli.Context) error {
	if c.NArg() != 1 {
		return exit.Usage("sandboxmcp egress list, or sandboxmcp egress example.com", "egress needs to know what to do: list, approve, deny, or one DOMAIN to allow")
	}
	domain := strings.ToLower(strings.TrimSpace(c.Args().First()))
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	held := c.Duration("for")
	switch err := mayGive(cfg, domain); {
	case err != nil:
		return err
	case held <= 0 || held > approval.MaxFor:
		return exit.Usage("--for 1h", "--for is more than nothing and at most %v, not %v", approval.MaxFor, held)
	}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	clients, err := servers(ctx, c)
	for _, client := range clients {
		defer client.Close()
	}
	var none *exit.Error
	if errors.As(err, &none) && c.String("server") == "" && none.Hint == "" {
		return exit.Fail("for one run: sandboxmcp run FILE --allow "+domain+"; for good: egress.allow in the configuration", "%s", none.Text)
	}
	if err != nil {
		return err
	}
	grants := []approved{}
	for _, client := range clients {
		grant, err := client.Grant(ctx, control.GrantRequest{
			Kind: approval.Egress, What: domain, Namespace: ofServer(c, client), Seconds: held.Seconds(), Reason: c.String("reason"),
		})
		if errors.Is(err, approval.ErrRoot) {
			return byRoot(client, "egress "+terminal.ShellWord(domain))
		}
		if err != nil {
			return fmt.Errorf("server %s: %w", client.Server().Name, err)
		}
		grants = append(grants, approved{grant, client.Server().Name, client})
	}
	if c.Bool("json") {
		return terminal.WriteJSON(p.Out, grants)
	}
	for _, g := range grants {
		_, err := fmt.Fprintf(p.Out, "allowed %s for the namespace %s until %s; take it back with sandboxmcp egress deny %s\n",
			terminal.Visible(g.Question.What), terminal.Visible(g.Question.Namespace), g.Until.Local().Format(time.DateTime), terminal.Visible(g.Question.ID))
		if err != nil {
			return err
		}
	}
	return nil
}

// mayGive refuses what no person can allow. What the server's own configuration denies stays denied, too.
func mayGive(cfg config.Config, domain string) error {
	policy, err := egress.NewPolicy([]string{domain}, nil)
	if err != nil {
		return exit.Usage("sandboxmcp egress example.com, '*.example.com' or db.example.com:5432", "%s is nothing to connect to: %v", terminal.Visible(domain), err)
	}
	if slices.Contains(policy.Ports(), backends.DNSPort) {
		return exit.Usage("sandboxmcp egress "+strings.TrimSuffix(domain, fmt.Sprint(":", backends.DNSPort)), "port %d is where each sandbox looks names up: nothing else can be reached on it", backends.DNSPort)
	}
	out, err := wiring.Egress(cfg)
	if err != nil {
		return err
	}
	if by, denied := out.Policy.Denies(domain); denied {
		return exit.Fail("sandboxmcp config shows where egress.deny is set", "the configuration denies %s, and nobody can allow it", terminal.Visible(by))
	}
	return nil
}
