package secrets

import (
	"context"
	"encoding/json"
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

// secretEntry is a secret in the JSON output.
type secretEntry struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Store     string    `json:"store"`
	Hosts     []string  `json:"hosts"`
	Require   bool      `json:"require"`
	Body      bool      `json:"body"`
	Added     time.Time `json:"added,omitzero"`        // time of the value; unknown if it can't be opened
	Age       *int64    `json:"age_seconds,omitempty"` // likewise
	Used      time.Time `json:"last_used,omitzero"`    // absent: never, as far as the log goes back
}

func (p commands) vaultListCommand() *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list the secrets that were added, without their values",
		UsageText: "sandboxmcp vault list [--namespace NS] [--json]",
		Description: `AGE is the age of the value. LAST USED is the last lease by a run, as far as the log goes back. Secrets that were put
into the keyring by hand, or are in the environment, can't be listed.

Example: sandboxmcp vault list --namespace team-a`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "namespace", Usage: "only those of the namespace `NS`"},
			command.JSONFlag(),
		},
		Action: command.NoWords(wiring.WithConfig(p.vaultList)),
	}
}

func (p commands) vaultList(ctx context.Context, c *cli.Context, cfg config.Config) error {
	list, problems, unknown, err := entriesOf(ctx, cfg, c.String("namespace"))
	if err != nil {
		return err
	}
	if unknown != nil {
		p.Messagef("warning: the last use of secrets is unknown: %v", unknown)
	}
	columns := terminal.Columns("NAME", "NAMESPACE", "STORE", "AGE", "LAST USED", "HOSTS", "REQUIRED", "BODY")
	err = command.Table(p.Streams, c, list, "no secrets were added", columns, func(e secretEntry) []string {
		hosts, required, body := "any: programs see the value", "-", "-"
		switch {
		case len(e.Hosts) > 0:
			hosts, required, body = strings.Join(e.Hosts, " "), yesOrNo(e.Require), yesOrNo(e.Body)
		case e.Added.IsZero(): // it could not be opened
			hosts = "?"
		}
		age, last := e.times()
		if unknown != nil {
			last = "?"
		}
		return []string{e.Name, e.Namespace, e.Store, age, last, hosts, required, body}
	})
	for _, problem := range problems {
		p.Messagef("%v", problem)
	}
	return exit.UnlessOK(len(problems) == 0, err)
}

// entriesOf returns the secrets of a namespace, or of all for "", and why some can't be opened. unknown is the reason
// for which their last use is unknown.
func entriesOf(ctx context.Context, cfg config.Config, namespace string) (list []secretEntry, problems []error, unknown, err error) {
	entries, problems, err := vault.NewSealed(cfg.StateDir, nil).List(ctx, namespace)
	var used map[secretName]time.Time
	if len(entries) > 0 {
		used, unknown = lastUsed(ctx, cfg, namespace)
	}
	list = []secretEntry{}
	for _, e := range entries {
		list = append(list, secretEntryOf(e, used[secretName{e.Namespace, e.Key}]))
	}
	return list, problems, unknown, err
}

func secretEntryOf(e vault.Entry, used time.Time) secretEntry {
	l := secretEntry{e.Namespace, e.Key, e.Store, append([]string{}, e.Hosts...), e.Require, e.Body, e.Added, nil, used}
	if !e.Added.IsZero() {
		age := int64(max(0, time.Since(e.Added)) / time.Second)
		l.Age = &age
	}
	return l
}

// times returns the age of the value and the time of its last lease, for people.
func (e secretEntry) times() (age, last string) {
	age, last = "?", "never"
	if !e.Added.IsZero() {
		age = terminal.Span(time.Since(e.Added))
	}
	if !e.Used.IsZero() {
		last = terminal.Ago(time.Since(e.Used))
	}
	return age, last
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// secretName is the full name of a secret.
type secretName struct{ namespace, name string }

// lastUsed returns the time of each secret's last lease, as far as the log goes back, in a namespace or in all for "".
// Rows in deleted or moved files are not included. A missing log is not created.
func lastUsed(ctx context.Context, cfg config.Config, namespace string) (map[secretName]time.Time, error) {
	used := map[secretName]time.Time{}
	if files, err := audit.Files(cfg.SQLitePath); err == nil && len(files) == 0 {
		return used, nil
	}
	log, err := audit.Open(ctx, cfg.SQLitePath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	for row, err := range log.Rows(ctx, audit.Filter{Namespace: namespace, Kinds: []string{event.VaultAccessed}}) {
		if err != nil {
			return nil, err
		}
		var data struct{ Secrets []string }
		_ = json.Unmarshal(row.Data, &data) // other rows do not matter
		for _, name := range data.Secrets {
			used[secretName{row.Namespace, name}] = row.Time
		}
	}
	return used, nil
}
