package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p commands) vaultRotateCommand() *cli.Command {
	return &cli.Command{
		Name:      "rotate",
		Usage:     "give a secret a new value",
		UsageText: "sandboxmcp vault rotate KEY [VALUE] [flags]",
		Description: `The new value has the binding of the old one. Runs and sessions that have leased the old one keep it until they end.

Examples:
  sandboxmcp vault rotate API_KEY
  pass show api | sandboxmcp vault rotate API_KEY --namespace team-a --stdin`,
		Flags:  slices.Concat([]cli.Flag{command.NamespaceFlag()}, valueFlags(), []cli.Flag{command.JSONFlag()}),
		Action: p.vaultRotate,
	}
}

// rotateResult is a new value in the JSON output.
type rotateResult struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Store     string   `json:"store"`
	Holders   []string `json:"sessions_with_the_old_value,omitempty"`
}

func (p commands) vaultRotate(c *cli.Context) error {
	namespace, key, err := secretNames(c)
	if err != nil {
		return err
	}
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	value, err := p.secretValue(c, key)
	if err != nil {
		return err
	}
	defer clear(value)
	var e vault.Entry
	err = changeVault(c, cfg, func(ctx context.Context, s *vault.Sealed) (err error) {
		e, err = s.Rotate(ctx, namespace, key, value)
		return err
	})
	switch {
	case errors.Is(err, vault.ErrNotFound):
		return exit.Fail(strings.Replace(commandLineFor(c, key), "rotate", "add", 1), "secret %s of namespace %s does not exist", key, namespace)
	case err != nil:
		return err
	}
	p.warnUnused(cfg, e)
	holders, err := sessionsWithValue(c, cfg, e)
	if err != nil {
		p.Messagef("warning: the sessions with the old value are unknown: %v", err)
	}
	err = p.Printf(c, rotateResult{Namespace: namespace, Name: key, Store: e.Store, Holders: holders},
		"rotated %s of the namespace %s: what runs next gets the new value\n", key, namespace)
	for _, id := range holders {
		if !c.Bool("json") {
			p.Messagef("session %s keeps the old value until it ends", id)
		}
	}
	return err
}

// sessionsWithValue returns the sessions that leased a secret and have no recorded end. None outlives the configured maximum.
func sessionsWithValue(c *cli.Context, cfg config.Config, e vault.Entry) (ids []string, err error) {
	return ids, wiring.WithLog(c, func(ctx context.Context, log *audit.Log) error {
		filter := audit.Filter{Namespace: e.Namespace, Since: time.Now().Add(-time.Duration(cfg.Sessions.LifetimeSeconds) * time.Second)}
		living, err := openSessions(ctx, log, filter)
		if err != nil || len(living) == 0 {
			return err
		}
		filter.Kinds = []string{event.ExecutionStarted, event.ExecutionCompleted, event.ExecutionFailed, event.ExecutionTimeout}
		for row, err := range log.Rows(ctx, filter) {
			if err != nil {
				return err
			}
			var cell struct {
				Session string
				Secrets []string
			}
			_ = json.Unmarshal(row.Data, &cell) // other rows are not cells
			if living[cell.Session] && slices.Contains(cell.Secrets, e.Key) {
				ids = append(ids, cell.Session)
				delete(living, cell.Session)
			}
		}
		return nil
	})
}

// openSessions returns the sessions for which filter matches a start and no end.
func openSessions(ctx context.Context, log *audit.Log, filter audit.Filter) (map[string]bool, error) {
	living := map[string]bool{}
	filter.Kinds = []string{event.SessionCreated, event.SessionKilled}
	for row, err := range log.Rows(ctx, filter) {
		switch {
		case err != nil:
			return nil, err
		case row.Kind == event.SessionCreated:
			living[row.Run] = true
		default:
			delete(living, row.Run)
		}
	}
	return living, nil
}

func (p commands) vaultRekeyCommand() *cli.Command {
	return &cli.Command{
		Name:      "rekey",
		Usage:     "give the vault a new key, in a file or in the keyring",
		UsageText: "sandboxmcp vault rekey [file|keyring] [--json]",
		Description: `All secrets are encrypted again with the new key; their values stay. The key goes into vault.key in the state directory,
or into the keyring of the operating system; by default, where it is now. A copy of the old key can decrypt old copies
of the vault only.

Example: sandboxmcp vault rekey keyring`,
		Flags:  []cli.Flag{command.JSONFlag()},
		Action: p.vaultRekey,
	}
}

// rekeyResult is a new key of the vault in the JSON output.
type rekeyResult struct {
	KeyIn   string `json:"key_in"`  // file or keyring
	Secrets int    `json:"secrets"` // number of secrets that are encrypted for it
}

func (p commands) vaultRekey(c *cli.Context) error {
	place := c.Args().First()
	if c.NArg() > 1 || c.Args().Present() && place != vault.InFile && place != vault.InKeyring {
		return exit.Usage("sandboxmcp vault rekey keyring", "vault rekey takes one word, file or keyring; a secret gets a new value by "+
			"vault rotate")
	}
	cfg, err := wiring.Load(c)
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
	where, are := "vault.key in the state directory", "are"
	if place == vault.InKeyring {
		where = "the keyring of the operating system"
	}
	if n == 1 {
		are = "is"
	}
	return p.Printf(c, rekeyResult{place, n}, "the vault has a new key, in %s; %s %s encrypted for it\n", where, terminal.Count(n, "secret"),
		are)
}
