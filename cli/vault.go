package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p *program) vaultCommand() *cli.Command {
	namespace := &cli.StringFlag{Name: "namespace", Usage: "in the namespace `NS`", Value: "default"}
	return &cli.Command{
		Name:        "vault",
		Usage:       "keep the secrets that runs are lent",
		UsageText:   "sandboxmcp vault add KEY [flags]\nsandboxmcp vault list [flags]\nsandboxmcp vault delete KEY [--namespace NS]",
		Description: "Secrets are encrypted, one by one, in vault.db in the state directory, for the key in vault.key beside it.\n\nExample: sandboxmcp vault add API_KEY --host api.example.com",
		Action: func(c *cli.Context) error {
			return usage("sandboxmcp vault --help", "say what to do: vault add, vault list or vault delete")
		},
		Subcommands: []*cli.Command{
			{
				Name:      "add",
				Usage:     "add a secret; its value is asked for, without showing it",
				UsageText: "sandboxmcp vault add KEY [VALUE] [flags]",
				Description: `With --host, programs never get the value: they see a placeholder, which is exchanged for the value
outside the sandbox, on its way to one of the hosts.

Examples:
  sandboxmcp vault add DB_PASSWORD
  sandboxmcp vault add API_KEY --host api.example.com --require
  sandboxmcp vault add SSH_KEY --namespace team-a --from-file id_ed25519
  pass show api | sandboxmcp vault add API_KEY --stdin --replace`,
				Flags: []cli.Flag{
					namespace,
					&cli.StringSliceFlag{Name: "host", Usage: "bind it to `HOST`: api.example.com, *.example.com or example.com:8443"},
					&cli.BoolFlag{Name: "require", Usage: "refuse requests to the hosts that do not carry it"},
					&cli.BoolFlag{Name: "body", Usage: "put it into the bodies of requests, too, not only into headers and addresses"},
					&cli.StringFlag{Name: "from-file", Usage: "the value is in `FILE`; a line end after it does not count"},
					&cli.BoolFlag{Name: "stdin", Usage: "the value comes from standard input; a line end after it does not count"},
					&cli.BoolFlag{Name: "replace", Usage: "take the place of a secret that is there, and of its hosts"},
				},
				Action: p.vaultAdd,
			},
			{
				Name:        "list",
				Usage:       "list the secrets that were added, without their values",
				UsageText:   "sandboxmcp vault list [--namespace NS] [--json]",
				Description: "Example: sandboxmcp vault list",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "namespace", Usage: "only those of the namespace `NS`"},
					&cli.BoolFlag{Name: "json", Usage: "print a JSON list"},
				},
				Action: p.vaultList,
			},
			{
				Name:        "delete",
				Usage:       "delete a secret",
				UsageText:   "sandboxmcp vault delete KEY [--namespace NS]",
				Description: "Runs that have been lent it keep it.\n\nExample: sandboxmcp vault delete API_KEY",
				Flags:       []cli.Flag{namespace},
				Action:      p.vaultDelete,
			},
		},
	}
}

func (p *program) vaultAdd(c *cli.Context) error {
	if c.NArg() == 0 || c.NArg() > 2 { // the words are not shown: one may be the value
		return usage("sandboxmcp vault add --help", "vault add needs the KEY of one secret, and takes one VALUE, not %s", count(c.NArg(), "word"))
	}
	e := vault.Entry{Namespace: c.String("namespace"), Key: c.Args().First()}
	if err := vault.CheckName(e.Namespace, e.Key); err != nil {
		return usage("sandboxmcp vault add --help", "%v", err)
	}
	var err error
	if e.Binding, err = binding(c); err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	value, err := p.secretValue(c, e.Key)
	if err != nil {
		return err
	}
	defer clear(value)
	err = changeVault(c, cfg, func(ctx context.Context, s *vault.Sealed) error {
		return s.Add(ctx, e, value, c.Bool("replace"))
	})
	switch {
	case errors.Is(err, vault.ErrExists):
		return fail("--replace takes its place", "%v", err)
	case err != nil:
		return err
	}
	p.unused(cfg, e)
	where := ""
	if len(e.Hosts) > 0 {
		where = ", for " + strings.Join(e.Hosts, ", ") + " only"
	}
	_, err = fmt.Fprintf(p.stdout, "added %s to the namespace %s%s\n", e.Key, e.Namespace, visible(where))
	return err
}

// binding is where the command line wants a secret to go.
func binding(c *cli.Context) (vault.Binding, error) {
	b := vault.Binding{Require: c.Bool("require"), Body: c.Bool("body")}
	for _, host := range c.StringSlice("host") {
		if !slices.Contains(b.Hosts, host) {
			b.Hosts = append(b.Hosts, host)
		}
	}
	if _, err := egress.NewPolicy(b.Hosts, nil); err != nil {
		return b, usage("--host api.example.com, *.example.com or example.com:8443", "%v", err)
	}
	if len(b.Hosts) == 0 && (b.Require || b.Body) {
		return b, usage("--host api.example.com", "--require and --body say how a host gets the secret: say which, too")
	}
	return b, nil
}

// unused warns of a secret that runs will not get.
func (p *program) unused(cfg config.Config, e vault.Entry) {
	sealed := slices.Index(cfg.Vault, "sealed")
	variable, err := vault.Variable(e.Namespace, e.Key)
	first := slices.Index(cfg.Vault, "environment")
	switch {
	case sealed < 0:
		p.say("warning: no run gets it, as the setting vault does not name the store sealed")
	case err == nil && first >= 0 && first < sealed && os.Getenv(variable) != "":
		p.say("warning: as long as the environment variable %s is set, runs get its value instead", variable)
	}
}

func (p *program) vaultDelete(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage("sandboxmcp vault list", "vault delete needs the KEY of one secret")
	}
	namespace, key := c.String("namespace"), c.Args().First()
	if err := vault.CheckName(namespace, key); err != nil {
		return usage("sandboxmcp vault list", "%v", err)
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	err = changeVault(c, cfg, func(ctx context.Context, s *vault.Sealed) error { return s.Delete(ctx, namespace, key) })
	switch {
	case errors.Is(err, vault.ErrNotFound):
		return fail("sandboxmcp vault list", "secret %s of namespace %s was never added, or is deleted already", key, namespace)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "deleted %s from the namespace %s\n", key, namespace)
	return err
}

// changeVault calls f with a store whose changes are in the audit log before they are made.
func changeVault(c *cli.Context, cfg config.Config, f func(context.Context, *vault.Sealed) error) error {
	return withLog(c, func(ctx context.Context, log *audit.Log) error {
		return f(ctx, vault.NewSealed(cfg.StateDir, func(ctx context.Context, change vault.Change) error {
			_, err := log.Append(ctx, audit.Entry{Kind: change.Kind, Namespace: change.Namespace, Data: map[string]any{
				"name": change.Key, "hosts": change.Hosts, "require": change.Require, "body": change.Body,
			}})
			return err
		}))
	})
}
