// Package secrets implements the commands of the vault and of tokens.
package secrets

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p commands) vaultCommand() *cli.Command {
	return &cli.Command{
		Name:  "vault",
		Usage: "manage secrets",
		UsageText: `sandboxmcp vault add KEY [VALUE] [flags]
sandboxmcp vault import FILE [flags]
sandboxmcp vault list [flags]
sandboxmcp vault verify [flags]
sandboxmcp vault rotate KEY [VALUE] [flags]
sandboxmcp vault rekey [file|keyring]
sandboxmcp vault delete KEY [--namespace NS]`,
		Description: `Each secret is encrypted in vault.db in the state directory, with the key in vault.key beside it or in the
keyring of the operating system. With --store keyring the secret itself is in the keyring.

Example: sandboxmcp vault add API_KEY --host api.example.com`,
		Subcommands: []*cli.Command{
			p.vaultAddCommand(), p.vaultImportCommand(), p.vaultListCommand(), p.vaultVerifyCommand(), p.vaultRotateCommand(), p.vaultRekeyCommand(),
			{
				Name:        "delete",
				Usage:       "delete a secret",
				UsageText:   "sandboxmcp vault delete KEY [--namespace NS] [--json]",
				Description: "Runs that have leased it keep it.\n\nExample: sandboxmcp vault delete API_KEY",
				Flags:       []cli.Flag{command.NamespaceFlag(), command.JSONFlag()},
				Action:      command.ExactlyOneWord(p.vaultDelete, "sandboxmcp vault list", "vault delete needs a KEY"),
			},
		},
	}
}

// bindingFlags returns the flags for the destinations of secrets.
func bindingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "host", Usage: "bind it to `HOST`: api.example.com, *.example.com or example.com:8443"},
		&cli.BoolFlag{Name: "require", Usage: "refuse requests to the hosts without it"},
		&cli.BoolFlag{Name: "body", Usage: "insert it into request bodies, too, not only into headers and addresses"},
	}
}

// valueFlags returns the flags for the source of a value.
func valueFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "from-file", Usage: "read the value from `FILE`, without its last line end"},
		&cli.BoolFlag{Name: "stdin", Usage: "read the value from standard input, without its last line end"},
	}
}

func (p commands) vaultDelete(c *cli.Context) error {
	namespace, key := c.String("namespace"), c.Args().First()
	if err := vault.CheckName(namespace, key); err != nil {
		return exit.Usage("sandboxmcp vault list", "%v", err)
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	err = changeVault(c, cfg, func(ctx context.Context, s *vault.Sealed) error { return s.Delete(ctx, namespace, key) })
	switch {
	case errors.Is(err, vault.ErrNotFound):
		return exit.Fail("sandboxmcp vault list", "secret %s of namespace %s does not exist", key, namespace)
	case err != nil:
		return err
	}
	return p.Printf(c, map[string]string{"namespace": namespace, "deleted": key}, "deleted %s from the namespace %s\n", key, namespace)
}

// changeVault calls f with a store that records each change in the audit log before it is made.
func changeVault(c *cli.Context, cfg config.Config, f func(context.Context, *vault.Sealed) error) error {
	return withChangeLog(c, cfg, func(ctx context.Context, log *audit.Log) error {
		return f(ctx, vault.NewSealed(cfg.StateDir, func(ctx context.Context, change vault.Change) error {
			_, err := log.Append(ctx, rowOf(change))
			return err
		}))
	})
}

// rowOf returns the log's row for a change.
func rowOf(change vault.Change) audit.Entry {
	if change.Kind == vault.Rekeyed { // concerns all namespaces
		return audit.Entry{Kind: change.Kind, Namespace: "default", Data: map[string]any{"key_in": change.Place, "secrets": change.Secrets}}
	}
	return audit.Entry{Kind: change.Kind, Namespace: change.Namespace, Data: map[string]any{
		"name": change.Key, "hosts": change.Hosts, "require": change.Require, "body": change.Body, "store": change.Store,
	}}
}

// Commands returns the commands of this package.
func Commands(s *command.Streams) []*cli.Command {
	p := commands{s}
	return []*cli.Command{p.vaultCommand(), p.tokenCommand()}
}

// commands are the actions, on the streams of an invocation.
type commands struct{ *command.Streams }
