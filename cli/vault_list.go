package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/vault"
)

// listed is a secret as JSON shows it.
type listed struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Hosts     []string  `json:"hosts"`
	Require   bool      `json:"require"`
	Body      bool      `json:"body"`
	Added     time.Time `json:"added,omitzero"` // not known of one that can't be opened
}

func (p *program) vaultList(c *cli.Context) error {
	if err := noWords(c); err != nil {
		return err
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
	defer stop()
	entries, problems, err := vault.NewSealed(cfg.StateDir, nil).List(ctx, c.String("namespace"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		list := []listed{}
		for _, e := range entries {
			list = append(list, listed{e.Namespace, e.Key, append([]string{}, e.Hosts...), e.Require, e.Body, e.Added})
		}
		err = writeJSON(p.stdout, list)
	} else {
		err = showSecrets(p.stdout, entries, time.Now())
	}
	for _, problem := range problems {
		p.say("%v", problem)
	}
	return cmp.Or(err, brokenSecrets(problems))
}

func brokenSecrets(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	return silent(exitFailed)
}

// showSecrets prints a line for each secret.
func showSecrets(w io.Writer, entries []vault.Entry, now time.Time) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintln(w, "no secrets were added")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tNAMESPACE\tADDED\tHOSTS\tREQUIRED\tBODY")
	for _, e := range entries {
		hosts, required, body := "any: programs see the value", "-", "-"
		if len(e.Hosts) > 0 {
			hosts, required, body = strings.Join(e.Hosts, " "), yesOrNo(e.Require), yesOrNo(e.Body)
		}
		added := "?"
		if e.Added.IsZero() { // it could not be opened
			hosts = "?"
		} else {
			added = ago(now.Sub(e.Added))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", visible(e.Key), visible(e.Namespace), added, visible(hosts), required, body)
	}
	return t.Flush()
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// ago says how long something is past, in its largest unit.
func ago(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int(d / unit.size); n > 0 {
			return count(n, unit.name) + " ago"
		}
	}
	return "just now"
}
