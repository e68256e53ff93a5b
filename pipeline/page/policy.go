package page

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
)

// group has the settings of one section of the configuration.
type group struct {
	Name string
	All  []control.Setting
}

// policy shows the settings and the machine.
func (p *Page) policy(w http.ResponseWriter, r *http.Request, v *visitor) error {
	ctx := r.Context()
	settings, err := control.Call(ctx, p.c.Client, control.GetPolicy, control.NoArguments{})
	if err != nil {
		return err
	}
	load, err := control.Call(ctx, p.c.Client, control.GetQueue, control.NoArguments{})
	if err != nil {
		return err
	}
	stats, err := control.Call(ctx, p.c.Client, control.GetStats, control.NoArguments{})
	if err != nil {
		return err
	}
	disk, _ := control.Call(ctx, p.c.Client, control.GetDisk, control.NoArguments{})
	return p.renderSection(w, v, "policy", wordFor("policy"), map[string]any{"Groups": groups(settings), "Load": load, "Stats": stats,
		"Disk":    disk,
		"Secrets": p.secretNames(r, v), "Server": p.c.Client.Server()})
}

// groups groups settings by their part before the first dot.
func groups(all []control.Setting) (list []group) {
	for _, s := range all {
		name, _, ok := strings.Cut(s.Key, ".")
		if !ok {
			name = ""
		}
		i := slices.IndexFunc(list, func(g group) bool { return g.Name == name })
		if i < 0 {
			list = append(list, group{Name: name})
			i = len(list) - 1
		}
		list[i].All = append(list[i].All, s)
	}
	slices.SortStableFunc(list, func(a, b group) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// secretNames returns the names of the secrets of all namespaces with runs.
func (p *Page) secretNames(r *http.Request, v *visitor) (list []control.Secrets) {
	names := v.identity.Namespaces.Names()
	if v.identity.Namespaces.All() {
		f, err := control.Call(r.Context(), p.c.Client, control.GetFigures, control.FiguresQuery{Days: 400})
		if err == nil {
			names = f.Namespaces
		}
		names = append(names, "default", p.c.Client.Server().Namespace)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		if s, err := control.Call(r.Context(), p.c.Client, control.ListSecrets, control.SecretsQuery{Namespace: name}); err == nil &&
			len(s.Names) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// doctor returns the results of doctor as a part of a page, because they take a while.
func (p *Page) doctor(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	findings, err := control.Call(r.Context(), p.c.Client, control.RunDoctor, control.NoArguments{})
	if err != nil {
		return err
	}
	return p.renderPart(w, "doctor", findings)
}
