package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host"
)

// hostAccess is all that is known of what may be done on the host.
type hostAccess struct {
	Enabled bool                  `json:"enabled"`
	Allowed []pipeline.HostAccess `json:"allowed"` // by the configuration
	Held    []control.Grant       `json:"held"`    // approvals of the servers that run
	Servers int                   `json:"servers"`
	Blocked []blockedOnHost       `json:"blocked"`
}

// blockedOnHost are programs, or patterns of the configuration, that nobody can allow.
type blockedOnHost struct {
	Programs []string `json:"programs"`
	But      []string `json:"but,omitempty"` // forms that can be allowed
	Why      string   `json:"why"`
}

func (p *program) hostAccessList(c *cli.Context) error {
	cfg, err := wiring.Load(c)
	if err != nil {
		return err
	}
	onHost, err := wiring.Host(cfg)
	if err != nil {
		return err
	}
	all := hostAccess{Enabled: onHost.Enabled, Allowed: onHost.Access(), Held: []control.Grant{}, Blocked: blocked(onHost.Policy)}
	ctx, stop := command.UntilSignal(c)
	defer stop()
	if err := all.ask(ctx, c); err != nil {
		return err
	}
	if c.Bool("json") {
		return terminal.WriteJSON(p.Out, all)
	}
	return p.showHostAccess(all)
}

func (all *hostAccess) ask(ctx context.Context, c *cli.Context) error {
	clients, err := servers(ctx, c)
	var none *exit.Error
	if errors.As(err, &none) && c.String("server") == "" {
		return nil // then nothing is approved
	}
	if err != nil {
		return err
	}
	all.Servers = len(clients)
	for _, client := range clients {
		defer client.Close()
		held, err := client.Grants(ctx)
		if err != nil {
			return err
		}
		for _, g := range held {
			if g.Question.Kind == approval.Host {
				all.Held = append(all.Held, g)
			}
		}
	}
	return nil
}

func blocked(policy *host.Policy) (list []blockedOnHost) {
	for _, one := range policy.Blocked() {
		list = append(list, blockedOnHost{Programs: []string{one.String()}, Why: "the configuration says so"})
	}
	for _, l := range host.Limits() {
		one := blockedOnHost{Programs: l.Programs, Why: l.Why}
		for _, form := range l.Forms {
			one.But = append(one.But, strings.TrimPrefix(form, ". "))
		}
		list = append(list, one)
	}
	for _, b := range append(host.Kinds(), host.Blocks()...) {
		list = append(list, blockedOnHost{Programs: b.Programs, Why: b.Why})
	}
	return list
}

func (p *program) showHostAccess(all hostAccess) error {
	if !all.Enabled {
		fmt.Fprintln(p.Out, "host access is off: host.enabled: true in the configuration turns it on")
	}
	t := terminal.NewTable(p.Out, terminal.Columns("KIND", "WHAT", "NAMESPACE", "UNTIL", "FROM")...)
	for _, a := range all.Allowed {
		if err := t.Row(a.Kind, a.Pattern, "all", "", a.From); err != nil {
			return err
		}
	}
	for _, g := range all.Held {
		verb, what, _ := strings.Cut(g.Question.What, " ")
		if err := t.Row(strings.Replace(verb, "run", "command", 1), what, g.Question.Namespace, g.Until.Local().Format(time.DateTime), "approval "+g.Question.ID); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	if len(all.Allowed)+len(all.Held) == 0 {
		fmt.Fprintln(p.Out, "nothing is allowed")
	}
	if all.Servers == 0 {
		fmt.Fprintln(p.Out, "no server runs, so nothing is approved")
	}
	var b strings.Builder
	b.WriteString("\nnobody can allow:\n")
	for _, one := range all.Blocked {
		fmt.Fprintf(&b, "\n  %s\n    %s\n", terminal.Visible(one.Why), terminal.Visible(strings.Join(one.Programs, " ")))
		if len(one.But) > 0 {
			fmt.Fprintf(&b, "    but with %s\n", terminal.Visible(inShort(one.But)))
		}
	}
	_, err := fmt.Fprint(p.Out, terminal.Fold(b.String(), terminal.Width(p.Out)))
	return err
}

// inShort names the subcommands that can be allowed, or the options of a program without any. JSON has all.
func inShort(forms []string) string {
	if strings.HasPrefix(forms[0], "-") {
		return forms[0]
	}
	names := make([]string, len(forms))
	for i, form := range forms {
		names[i], _, _ = strings.Cut(form, " ")
	}
	return strings.Join(names, ", ") + ", and options as --json lists them"
}

// meantOnHost says whether a word is the id of an approval, or what it allows.
func meantOnHost(word string, q approval.Question) bool {
	_, what, _ := strings.Cut(q.What, " ")
	if one, err := host.ParsePattern(word); err == nil && one.String() == what {
		return true
	}
	return strings.EqualFold(word, q.ID) || word == what || word == q.What
}
