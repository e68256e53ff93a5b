package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p *program) vaultRekeyCommand() *cli.Command {
	return &cli.Command{
		Name:      "rekey",
		Usage:     "give the vault a new key, in a file or in the keyring",
		UsageText: "sandboxmcp vault rekey [file|keyring] [--json]",
		Description: `The key is one for all secrets, which are encrypted anew for it; their values stay. It comes into vault.key in the
state directory, or into the keyring of the operating system; without a word, where it is now. Whoever has a copy of
the old key can open old copies of the vault, and nothing newer.

Example: sandboxmcp vault rekey keyring`,
		Flags:  []cli.Flag{command.JSONFlag()},
		Action: p.vaultRekey,
	}
}

// rekeyed is a new key of the vault as JSON shows it.
type rekeyed struct {
	KeyIn   string `json:"key_in"`  // file or keyring
	Secrets int    `json:"secrets"` // that are encrypted for it
}

func (p *program) vaultRekey(c *cli.Context) error {
	place := c.Args().First()
	if c.NArg() > 1 || c.Args().Present() && place != vault.InFile && place != vault.InKeyring {
		return exit.Usage("sandboxmcp vault rekey keyring", "vault rekey takes one word, file or keyring; a secret gets a new value by vault rotate")
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	var n int
	err = changeVault(c, cfg, func(ctx context.Context, s *vault.Sealed) (err error) {
		place, n, err = s.Rekey(ctx, place)
		return err
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return terminal.WriteJSON(p.Out, rekeyed{place, n})
	}
	where, are := "vault.key in the state directory", "are"
	if place == vault.InKeyring {
		where = "the keyring of the operating system"
	}
	if n == 1 {
		are = "is"
	}
	_, err = fmt.Fprintf(p.Out, "the vault has a new key, in %s; %s %s encrypted for it\n", where, terminal.Count(n, "secret"), are)
	return err
}
