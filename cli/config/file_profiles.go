package config

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// profiles reads the operator's own profiles.
func (d *document) profiles(n *yaml.Node) {
	d.pairs("profiles.", n, func(full string, k, v *yaml.Node) {
		name := k.Value
		if _, fixed := builtin()[name]; fixed {
			d.fail(d.at(k), full, "this profile is built in, and means the same everywhere: give yours another name")
			return
		}
		if !profileName().MatchString(name) {
			d.fail(d.at(k), "profiles", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", name)
			return
		}
		d.profile(name, full, k, v)
	})
}

// profile reads one. What it leaves out is as in the profile "hardened", or requires all layers
// of the set that it builds: less must be written down.
func (d *document) profile(name, full string, k, n *yaml.Node) {
	p := Profile{Layers: Hardened}
	var require, layers *yaml.Node
	d.pairs(full+".", n, func(key string, k, v *yaml.Node) {
		switch k.Value {
		case "require":
			require = v
		case "layers":
			layers = v
		default:
			d.fail(d.at(k), key, "unknown key%s: a profile has require and layers", didYouMean(k.Value, []string{"require", "layers"}))
		}
	})
	if layers != nil {
		sets := []string{Hardened, Landlock}
		d.setting(word(full+".layers", "", sets, func(*Config) *string { return &p.Layers }), layers)
	}
	p.Require = slices.Clone(builtin()[p.Layers].Require)
	if require != nil {
		d.setting(requirement(full+".require", &p), require)
	}
	d.c.Profiles[name] = p
}
