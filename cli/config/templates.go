package config

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Template is what sandboxes of E2B's protocol are made in. Empty fields are the settings of all runs.
type Template struct{ Backend, Profile string }

// backends are the names of what contains programs.
func backends() []string { return []string{"process", "podman", "docker", "kubernetes"} }

// maxTemplate is the longest name of a template.
const maxTemplate = 100

// templates reads the names of templates, and what each is.
func (d *document) templates(n *yaml.Node) {
	d.pairs("http.templates.", n, func(full string, k, v *yaml.Node) {
		if k.Value == "" || len(k.Value) > maxTemplate {
			d.fail(d.at(k), "http.templates", "a template's name has 1 to %d bytes", maxTemplate)
			return
		}
		var t Template
		d.fields(full, v, map[string]setting{
			"backend": word(full+".backend", "", backends(), func(*Config) *string { return &t.Backend }),
			"profile": text(full+".profile", func(*Config) *string { return &t.Profile }),
		}, "a template has backend and profile")
		if d.c.HTTP.Templates == nil {
			d.c.HTTP.Templates = map[string]Template{}
		}
		d.c.HTTP.Templates[k.Value] = t
	})
}

// templateOrigins are the settings of the templates, by name.
func (c Config) templateOrigins() (all []Setting) {
	for _, name := range slices.Sorted(maps.Keys(c.HTTP.Templates)) {
		t, key := c.HTTP.Templates[name], "http.templates."+name
		all = append(all, Setting{key + ".backend", t.Backend, c.From(key + ".backend")}, Setting{key + ".profile", t.Profile, c.From(key + ".profile")})
	}
	return all
}
