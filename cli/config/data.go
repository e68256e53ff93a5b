package config

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// data reads the directories that runs and sessions may ask for by name.
func (d *document) data(n *yaml.Node) {
	d.pairs("data.", n, func(full string, k, v *yaml.Node) {
		if !profileName().MatchString(k.Value) {
			d.fail(d.at(k), "data", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", k.Value)
			return
		}
		var dir string
		before := len(d.errs)
		if d.setting(path(full, "", func(*Config) *string { return &dir }), v); len(d.errs) > before {
			return
		}
		if d.c.Data == nil {
			d.c.Data = map[string]string{}
		}
		d.c.Data[k.Value] = dir
	})
}

// dataOrigins are the directories of data, by name.
func (c Config) dataOrigins() (all []Setting) {
	for _, name := range slices.Sorted(maps.Keys(c.Data)) {
		all = append(all, Setting{"data." + name, quoted(c.Data[name]), c.From("data." + name)})
	}
	return all
}
