package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// The built-in profiles. Their names are also the layer sets that a profile can build on.
const (
	Hardened = "hardened" // all layers; requires every containment layer
	Landlock = "landlock" // for hosts without user namespaces: weaker, no network, only by name
)

// Profile is a named choice of layers.
type Profile struct {
	Require []string // layers without which nothing runs
	Layers  string   // the layer set that is built: Hardened or Landlock
}

// containmentLayers returns the layers that confine a program; resources returns those that limit its resources. This package
// imports no other of the module, so it repeats the names; a test in cli compares them.
func containmentLayers() []string {
	return []string{
		"user", "mount", "pid", "net", "ipc", "uts", "cgroupns", "time",
		"landlock", "seccomp", "caps", "nnp",
	}
}

func resourceLayers() []string { return []string{"cgroup", "rlimit"} }

// withoutNamespaces returns the containment layers that need no user namespace.
func withoutNamespaces() []string { return []string{"landlock", "seccomp", "caps", "nnp"} }

// Layers returns the names of all layers.
func Layers() []string { return append(containmentLayers(), resourceLayers()...) }

// builtinProfiles returns a new map of the built-in profiles.
func builtinProfiles() map[string]Profile {
	return map[string]Profile{
		Hardened: {Require: containmentLayers(), Layers: Hardened},
		Landlock: {Require: withoutNamespaces(), Layers: Landlock},
	}
}

// profileName matches valid names of the operator's own profiles.
var profileName = lazy.Regexp(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// CheckLayers returns an error unless layers are valid requirements of a profile that builds base, Hardened or
// Landlock: known layers of that set, each once.
func CheckLayers(base string, layers []string) error {
	buildable := Layers()
	if base == Landlock {
		buildable = append(withoutNamespaces(), resourceLayers()...)
	}
	for i, name := range layers {
		switch {
		case !slices.Contains(Layers(), name):
			return fmt.Errorf("unknown layer %q%s: layers are %s", name, spelling.DidYouMean(name, Layers()), yamlList(Layers()))
		case slices.Contains(layers[:i], name):
			return fmt.Errorf("layer %s is listed twice", name)
		case !slices.Contains(buildable, name):
			return fmt.Errorf("layer %s can't be required: the profile's layers are %q, which has only %s", name, base, yamlList(buildable))
		}
	}
	return nil
}

// requireSetting returns the setting for the required layers of p.
func requireSetting(key string, p *Profile) setting {
	return setting{key: key, kind: kind{set: func(v value) error {
		layers, err := v.wordList()
		switch {
		case err == nil && len(layers) == 0:
			err = fmt.Errorf("it is empty: write %s if no layer is needed", None)
		case slices.Equal(layers, []string{None}):
			layers = nil
		case err == nil:
			err = CheckLayers(p.Layers, layers)
		}
		if err == nil {
			p.Require = layers
		}
		return err
	}}}
}

// readProfiles reads the operator's own profiles.
func (d *document) readProfiles(n *yaml.Node) {
	d.eachPair("profiles.", n, func(full string, k, v *yaml.Node) {
		name := k.Value
		if _, fixed := builtinProfiles()[name]; fixed {
			d.fail(d.position(k), full, "this profile is built in: choose another name")
			return
		}
		if !profileName().MatchString(name) {
			d.fail(d.position(k), "profiles", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", name)
			return
		}
		d.readProfile(name, full, v)
	})
}

// readProfile reads one profile. Without layers it builds the set of "hardened"; without require it requires all
// containment layers of its set, so that a weaker profile must be explicit.
func (d *document) readProfile(name, full string, n *yaml.Node) {
	p := Profile{Layers: Hardened}
	var require, layers *yaml.Node
	d.eachPair(full+".", n, func(key string, k, v *yaml.Node) {
		switch k.Value {
		case "require":
			require = v
		case "layers":
			layers = v
		default:
			d.fail(d.position(k), key, "unknown key%s: a profile has require and layers",
				spelling.DidYouMean(k.Value, []string{"require", "layers"}))
		}
	})
	if layers != nil {
		sets := []string{Hardened, Landlock}
		d.applySetting(setting{key: full + ".layers", kind: wordKind(sets, &p.Layers)}, layers)
	}
	p.Require = slices.Clone(builtinProfiles()[p.Layers].Require)
	if require != nil {
		d.applySetting(requireSetting(full+".require", &p), require)
	}
	d.c.Profiles[name] = p
}
