package config

import (
	"go.yaml.in/yaml/v3"
)

// data reads the directories that runs and sessions may request by name.
func (d *document) data(n *yaml.Node) {
	d.pairs("data.", n, func(full string, k, v *yaml.Node) {
		if !profileName().MatchString(k.Value) {
			d.fail(d.at(k), "data", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", k.Value)
			return
		}
		var dir string
		before := len(d.errs)
		if d.setting(setting{key: full, kind: path(&dir)}, v); len(d.errs) > before {
			return
		}
		if d.c.Data == nil {
			d.c.Data = map[string]string{}
		}
		d.c.Data[k.Value] = dir
	})
}
