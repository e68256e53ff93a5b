package secrets

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/console"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

func (p commands) tokenCommand() *cli.Command {
	return &cli.Command{
		Name:  "token",
		Usage: "manage access tokens",
		UsageText: `sandboxmcp token create NAME [--agent | --person] --namespace NS... [--expires TIME] [--e2b]
sandboxmcp token list [--json]
sandboxmcp token revoke NAME|ID`,
		Description: `A token is a bearer token for a server's HTTP address: its holder is NAME for the server and in the audit log. Only its hash is
stored, in tokens.json in the state directory. Running servers notice changes at once.

Example: sandboxmcp token create ci --namespace ci --expires 30d`,
		Subcommands: []*cli.Command{
			{
				Name:      "create",
				Usage:     "create a token and print it once",
				UsageText: "sandboxmcp token create NAME [--agent | --person] --namespace NS... [--expires TIME] [--e2b] [--json]",
				Description: `An agent's token allows the operations of agents in its namespaces, and no approvals. A person's token allows all
operations, including approvals, in its namespaces: '*' is all. Only the token is on standard output. With --e2b it has the
format of the E2B_API_KEY of E2B's SDKs.

Examples:
  sandboxmcp token create ci --namespace ci
  sandboxmcp token create ada --person --namespace team
  sandboxmcp token create root --person --namespace '*' --expires 12h`,
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "agent", Usage: "create it for an agent (the default)"},
					&cli.BoolFlag{Name: "person", Usage: "create it for a person"},
					&cli.StringSliceFlag{Name: "namespace", Usage: "allow the namespace `NS` (may be given more than once); for a person also '*', all"},
					&cli.StringFlag{Name: "expires", Usage: "expire after `TIME`, such as 12h, 30d or never", Value: "90d"},
					&cli.BoolFlag{Name: "e2b", Usage: "print it in the format of an E2B API key"},
					command.JSONFlag(),
				},
				Action: command.ExactlyOneWord(p.tokenCreate, tokenHelp, "token create needs the NAME of one token"),
			},
			{
				Name:        "list",
				Usage:       "list the tokens, without their secrets",
				UsageText:   "sandboxmcp token list [--json]",
				Description: "LAST USED is to the hour.\n\nExample: sandboxmcp token list",
				Flags:       []cli.Flag{command.JSONFlag()},
				Action:      command.NoWords(wiring.WithConfig(p.tokenList)),
			},
			{
				Name:      "revoke",
				Usage:     "revoke a token",
				UsageText: "sandboxmcp token revoke NAME|ID [--json]",
				Description: `New requests with it are refused, and running ones end within a second. The argument can also be the token itself, if one
was leaked. On a full disk it is revoked all the same, and its row in the log follows later.

Example: sandboxmcp token revoke ci`,
				Flags:  []cli.Flag{command.JSONFlag()},
				Action: command.ExactlyOneWord(p.tokenRevoke, "sandboxmcp token list", "token revoke needs the NAME or the ID of one token"),
			},
		},
	}
}

const tokenHelp = "sandboxmcp token create --help"

func (p commands) tokenCreate(c *cli.Context) error {
	spec := identity.Token{Name: c.Args().First(), Kind: identity.Agent, Namespaces: identity.ParseNamespaces(c.StringSlice("namespace"))}
	if c.Bool("person") {
		spec.Kind = identity.Person
	}
	life, err := parseLifetime(c.String("expires"))
	switch {
	case c.Bool("agent") && c.Bool("person"):
		return exit.Usage(tokenHelp, "--agent and --person contradict each other")
	case err != nil:
		return exit.Usage("--expires 12h, --expires 30d or --expires never", "%v", err)
	case !c.IsSet("namespace") && spec.Kind == identity.Agent:
		return exit.Usage("--namespace default, or another", "an agent needs a namespace")
	case !c.IsSet("namespace"):
		return exit.Usage("--namespace default or another, or --namespace '*' for all", "a person needs a namespace")
	}
	if err := spec.Check(); err != nil {
		return exit.Usage(tokenHelp, "%v", err)
	}
	if life > 0 {
		spec.Expires = time.Now().Add(life)
	}
	var token string
	var made identity.Token
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	err = withChangeLog(c, cfg, func(ctx context.Context, log *audit.Log) (err error) {
		token, made, err = identity.OpenTokens(cfg.StateDir).Create(ctx, spec, func(t identity.Token) error {
			_, err := log.Append(ctx, tokenRow(event.TokenCreated, t))
			return err
		})
		return err
	})
	switch {
	case errors.Is(err, identity.ErrExists):
		return exit.Fail("sandboxmcp token revoke "+spec.Name+", or another name", "token %s already exists", spec.Name)
	case err != nil:
		return err
	}
	if c.Bool("e2b") {
		token = identity.ToE2B(token)
	}
	if !c.Bool("json") {
		who, where := "a person", "all namespaces"
		if made.Kind == identity.Agent {
			who = "an agent"
		}
		if !made.Namespaces.All() {
			where = strings.Join(made.Namespaces.List(), ", ")
		}
		p.Messagef("token %s (%s), of %s in %s, %s; it will not be shown again", made.Name, made.ID, who, where, expiryText(made, time.Now()))
	}
	return p.Printf(c, struct {
		identity.Token
		Secret string `json:"token"`
	}{made, token}, "%s\n", token)
}

// parseLifetime parses the lifetime of a token; 0 is unlimited.
func parseLifetime(text string) (time.Duration, error) {
	const most = 10 * 365 * 24 * time.Hour
	if text == "never" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		if n, err = strconv.ParseUint(days, 10, 16); err == nil {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d < time.Minute || d > most {
		return 0, fmt.Errorf("--expires %s is not between a minute and ten years", terminal.Visible(text))
	}
	return d, nil
}

func expiryText(t identity.Token, now time.Time) string {
	switch {
	case t.Expires.IsZero():
		return "which never expires"
	case t.Expired(now):
		return "which has expired"
	}
	return "until " + t.Expires.Local().Format("2006-01-02 15:04")
}

func (p commands) tokenList(_ context.Context, c *cli.Context, cfg config.Config) error {
	list, err := identity.OpenTokens(cfg.StateDir).List()
	if err != nil {
		return err
	}
	columns, now := terminal.Columns("NAME", "ID", "KIND", "NAMESPACES", "EXPIRES", "LAST USED"), time.Now()
	return command.Table(p.Streams, c, list, "there are no tokens", columns, func(token identity.Token) []string {
		namespaces, expires, used := "all", "never", "never"
		if !token.Namespaces.All() {
			namespaces = strings.Join(token.Namespaces.List(), " ")
		}
		switch {
		case token.Expired(now):
			expires = "expired"
		case !token.Expires.IsZero():
			expires = "in " + terminal.Span(max(token.Expires.Sub(now), time.Minute))
		}
		if !token.Used.IsZero() {
			used = terminal.Ago(now.Sub(token.Used))
		}
		return []string{token.Name, token.ID, string(token.Kind), namespaces, expires, used}
	})
}

func (p commands) tokenRevoke(c *cli.Context) error {
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	gone, err := identity.OpenTokens(cfg.StateDir).Revoke(c.Context, c.Args().First(), func(t identity.Token) error {
		return recordRevoked(c, cfg, t)
	})
	switch {
	case errors.Is(err, identity.ErrUnknown): // the word is not printed: it may be a token
		return exit.Fail("sandboxmcp token list", "the token is unknown, or already revoked")
	case gone.ID == "":
		return err
	}
	printed := p.Printf(c, map[string]string{"id": gone.ID, "revoked": gone.Name}, "revoked %s\n", gone.Name)
	if err != nil {
		p.Messagef("the token %s is revoked: %v", gone.Name, err)
	}
	if errors.As(err, new(*audit.Owed)) {
		err = nil
	}
	return exit.UnlessOK(err == nil, printed)
}

// recordRevoked writes the row of an already revoked token, or queues it.
func recordRevoked(c *cli.Context, cfg config.Config, t identity.Token) error {
	entry, tried := tokenRow(event.TokenRevoked, t), false
	entry.Late = true
	err := withChangeLog(c, cfg, func(ctx context.Context, log *audit.Log) error {
		tried = true
		_, err := log.Append(ctx, entry)
		return err
	})
	if err != nil && !tried { // the log can't be opened
		return audit.Owe(cfg.SQLitePath, err, entry)
	}
	return err
}

// tokenRow returns the row of a change of a token.
func tokenRow(kind string, t identity.Token) audit.Entry {
	data := map[string]any{"name": t.Name, "id": t.ID, "kind": t.Kind, "namespaces": t.Namespaces, "by": "command line",
		"user": console.User()}
	if !t.Expires.IsZero() {
		data["until"] = t.Expires
	}
	return audit.Entry{Kind: kind, Namespace: "default", Data: data}
}

// withChangeLog calls f with the log, which is signed if there is a key.
func withChangeLog(c *cli.Context, cfg config.Config, f func(context.Context, *audit.Log) error) error {
	if keys, err := wiring.Keys(cfg); err == nil && keys.HasKey() {
		return wiring.WithSignedLog(c, f)
	}
	return wiring.WithLog(c, f)
}
