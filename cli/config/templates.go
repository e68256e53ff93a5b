package config

import (
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
		d.fields(full, v, t.settings(full), "a template has backend and profile")
		if d.c.HTTP.Templates == nil {
			d.c.HTTP.Templates = map[string]Template{}
		}
		d.c.HTTP.Templates[k.Value] = t
	})
}

// settings returns the settings of a template, whose keys begin with key.
func (t *Template) settings(key string) []setting {
	return []setting{
		{key: key + ".backend", kind: unquoted(word(backends(), &t.Backend), &t.Backend)},
		{key: key + ".profile", kind: unquoted(text(&t.Profile), &t.Profile)},
	}
}
