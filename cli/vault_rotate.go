package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

func (p *program) vaultRotateCommand() *cli.Command {
	return &cli.Command{
		Name:      "rotate",
		Usage:     "give a secret a new value, or the vault a new key",
		UsageText: "sandboxmcp vault rotate KEY [VALUE] [flags]\nsandboxmcp vault rotate --identity [file|keyring]",
		Description: `The new value is bound as the old one was. Runs and sessions that have been lent the old one keep it until they end.

With --identity, the vault gets a new key, in vault.key or in the keyring of the operating system, and all secrets
are encrypted anew for it. Whoever has a copy of the old key can open old copies of the vault, and nothing newer.

Examples:
  sandboxmcp vault rotate API_KEY
  pass show api | sandboxmcp vault rotate API_KEY --namespace team-a --stdin
  sandboxmcp vault rotate --identity keyring`,
		Flags: slices.Concat([]cli.Flag{inNamespace()}, valueFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "identity", Usage: "make a new key of the vault, in a file or in the keyring; without a word, where it is"},
			&cli.BoolFlag{Name: "json", Usage: "print it as JSON"},
		}),
		Action: p.vaultRotate,
	}
}

// rotated is a new value, or a new key, as JSON shows it.
type rotated struct {
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name,omitempty"`
	Store     string   `json:"store,omitempty"`
	Keepers   []string `json:"sessions_with_the_old_value,omitempty"`
	KeyIn     string   `json:"key_in,omitempty"`
	Secrets   *int     `json:"secrets,omitempty"`
}

func (p *program) vaultRotate(c *cli.Context) error {
	if c.Bool("identity") {
		return p.vaultRekey(c)
	}
	if c.NArg() == 0 || c.NArg() > 2 { // the words are not shown: one may be the value
		return usage("sandboxmcp vault rotate --help", "vault rotate needs the KEY of one secret, and takes one VALUE, not %s", count(c.NArg(), "word"))
	}
	namespace, key := c.String("namespace"), c.Args().First()
	if err := vault.CheckName(namespace, key); err != nil {
		return usage("sandboxmcp vault rotate --help", "%v", err)
	}
	cfg, err := load(c)
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
		return fail("sandboxmcp vault add "+key, "secret %s of namespace %s was never added, or is deleted already", key, namespace)
	case err != nil:
		return err
	}
	p.unused(cfg, e)
	keepers, err := keepers(c, cfg, e)
	if err != nil {
		p.say("warning: which sessions keep the old value is not known: %v", err)
	}
	if c.Bool("json") {
		return writeJSON(p.stdout, rotated{Namespace: namespace, Name: key, Store: e.Store, Keepers: keepers})
	}
	_, err = fmt.Fprintf(p.stdout, "rotated %s of the namespace %s: what runs next gets the new value\n", key, namespace)
	for _, id := range keepers {
		p.say("the session %s was lent the old value, and keeps it until it ends", id)
	}
	return err
}

// keepers are the sessions that were lent a secret and are not known to have ended. None lives longer than the
// configuration lets it.
func keepers(c *cli.Context, cfg config.Config, e vault.Entry) (ids []string, err error) {
	return ids, withLog(c, func(ctx context.Context, log *audit.Log) error {
		filter := audit.Filter{Namespace: e.Namespace, Since: time.Now().Add(-time.Duration(cfg.Sessions.LifetimeSeconds) * time.Second)}
		living, err := livingSessions(ctx, log, filter)
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
			_ = json.Unmarshal(row.Data, &cell) // what is not of this form is no cell
			if living[cell.Session] && slices.Contains(cell.Secrets, e.Key) {
				ids = append(ids, cell.Session)
				delete(living, cell.Session)
			}
		}
		return nil
	})
}

// livingSessions are those that filter finds the beginning of, and no end.
func livingSessions(ctx context.Context, log *audit.Log, filter audit.Filter) (map[string]bool, error) {
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

func (p *program) vaultRekey(c *cli.Context) error {
	place := c.Args().First()
	if c.NArg() > 1 || place != "" && place != vault.InFile && place != vault.InKeyring {
		return usage("sandboxmcp vault rotate --identity keyring", "vault rotate --identity takes one word: file or keyring")
	}
	for _, flag := range []string{"namespace", "stdin", "from-file"} {
		if c.IsSet(flag) {
			return usage("sandboxmcp vault rotate --identity", "--%s has no meaning with --identity: the key is one for all secrets, and is made here", flag)
		}
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
		return writeJSON(p.stdout, rotated{KeyIn: place, Secrets: &n})
	}
	where := map[string]string{vault.InFile: "vault.key in the state directory", vault.InKeyring: "the keyring of the operating system"}[place]
	_, err = fmt.Fprintf(p.stdout, "the vault has a new key, in %s; %s encrypted for it\n", where, strings.Replace(count(n, "secret")+" are", "1 secret are", "1 secret is", 1))
	return err
}
