package config

import (
	"go.yaml.in/yaml/v3"
)

// readData reads the directories that runs and sessions may request by name.
func (d *document) readData(n *yaml.Node) {
	d.eachPair("data.", n, func(full string, k, v *yaml.Node) {
		if !profileName().MatchString(k.Value) {
			d.fail(d.position(k), "data", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", k.Value)
			return
		}
		var dir string
		before := len(d.errs)
		if d.applySetting(setting{key: full, kind: pathKind(&dir)}, v); len(d.errs) > before {
			return
		}
		if d.c.Data == nil {
			d.c.Data = map[string]string{}
		}
		d.c.Data[k.Value] = dir
	})
}
