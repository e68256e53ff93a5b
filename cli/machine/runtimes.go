package machine

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/cli/wiring"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
)

func (p commands) runtimesCommand() *cli.Command {
	return &cli.Command{
		Name:      "runtimes",
		Usage:     "list languages, backends and isolation layers",
		UsageText: "sandboxmcp runtimes [--backend NAME] [--json]",
		Description: `Agents get the same from list_runtimes. The exit code is 1 if no backend can run anything; then sandboxmcp
doctor shows the remedy.

Example: sandboxmcp runtimes`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "backend", Usage: "only the backend `NAME`: process, podman, docker or kubernetes"},
			command.JSONFlag(),
		},
		Action: command.NoWords(wiring.WithConfig(p.runtimes)),
	}
}

// backendOffer are the languages and layers of a backend in the JSON output.
type backendOffer struct {
	Backend  string           `json:"backend"`
	Default  bool             `json:"default"`
	Usable   bool             `json:"usable"`
	Why      string           `json:"why,omitempty"` // reason for which it is not usable
	Runtimes []runtimeOffer   `json:"runtimes"`
	Layers   []backends.Layer `json:"layers"`
}

type runtimeOffer struct {
	Language  string `json:"language"`
	Available bool   `json:"available"`
	Version   string `json:"version,omitempty"`
	Path      string `json:"path,omitempty"`
	Why       string `json:"why,omitempty"` // reason for which it is missing, or where it was found
}

func (p commands) runtimes(ctx context.Context, c *cli.Context, cfg config.Config) error {
	all, err := probeBackends(ctx, cfg, c.String("backend"))
	if err != nil {
		return err
	}
	err = p.Print(c, all, func(w io.Writer) error { return writeOffers(w, all) })
	return exit.UnlessOK(slices.ContainsFunc(all, func(o backendOffer) bool { return o.Usable }), err)
}

// probeBackends probes all backends at the same time, or only the named one. A backend that does not answer is unusable.
func probeBackends(ctx context.Context, cfg config.Config, only string) ([]backendOffer, error) {
	parts, err := wiring.New(ctx, cfg, wiring.Purpose{})
	if err != nil {
		return nil, err
	}
	defer parts.Close()
	names := parts.Names()
	if only != "" {
		if !slices.Contains(names, only) {
			return nil, exit.Usage("--backend "+strings.Join(names, ", or "), "unknown backend %q", only)
		}
		names = []string{only}
	}
	all := make([]backendOffer, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, probeTimeout)
			defer cancel()
			probe, err := containment.Probe(ctx, parts.Pipeline, name)
			all[i] = newRuntimeOffer(name, probe, err)
			all[i].Default = name == cfg.Backend
		})
	}
	asked.Wait()
	return all, ctx.Err()
}

func newRuntimeOffer(name string, probe backends.Probe, err error) backendOffer {
	o := backendOffer{Backend: name, Usable: probe.Usable && err == nil, Why: probe.Why.String(), Runtimes: []runtimeOffer{},
		Layers: []backends.Layer{}}
	if err != nil {
		o.Why, _ = exit.Reason(err)
	}
	for _, r := range probe.Runtimes {
		o.Runtimes = append(o.Runtimes, runtimeOffer{r.Name, r.Path != "", r.Version, r.Path, r.Why.String()})
	}
	for _, l := range probe.Layers {
		o.Layers = append(o.Layers, l.Layer)
	}
	return o
}

func writeOffers(w io.Writer, all []backendOffer) error {
	t := terminal.NewTable(w, terminal.Columns("BACKEND", "LANGUAGE", "VERSION", "WHERE")...)
	footer := ""
	for _, o := range all {
		if !o.Usable {
			footer += terminal.Visible(o.Backend+" can't run code: "+o.Why) + "\n"
			continue
		}
		for _, r := range o.Runtimes {
			version, where := r.Version, r.Path
			if !r.Available {
				version, where = "-", "missing: "+r.Why
			} else if r.Why != "" && where == "" {
				where = r.Why
			}
			t.Row(o.Backend, r.Language, version, where)
		}
		text := o.Backend + " contains programs by:"
		for _, l := range o.Layers {
			if l.InForce {
				text += " " + l.Name
			}
		}
		footer += terminal.Visible(text) + "\n"
	}
	if err := t.Close(); err != nil {
		return err
	}
	_, err := io.WriteString(w, footer)
	return err
}
