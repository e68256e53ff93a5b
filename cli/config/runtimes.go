package config

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// Runtime is a language beside the built-in ones. In the words of its commands, {file} is the code's file, and {program} what Compile makes.
type Runtime struct {
	Extensions []string // of its files, with the dot, in lower case
	Command    []string
	Compile    []string // nil is not compiled
	Check      []string // of the syntax; nil is that there is none
}

// taken are the names of languages that are built in, and the extensions of their files.
func taken() []string {
	return strings.Fields("python python3 py ipython node nodejs javascript js node.js ecmascript typescript ts shell bash sh zsh r rscript command " +
		".py .js .mjs .cjs .ts .mts .cts .sh .bash .r")
}

var extension = lazy.Regexp(`^\.[a-z0-9][a-z0-9+_-]{0,15}$`)

// runtimes reads the operator's own languages.
func (d *document) runtimes(n *yaml.Node) {
	d.pairs("runtimes.", n, func(full string, k, v *yaml.Node) {
		switch {
		case slices.Contains(taken(), k.Value):
			d.fail(d.at(k), full, "this language is built in: give yours another name")
		case !profileName().MatchString(k.Value):
			d.fail(d.at(k), "runtimes", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", k.Value)
		default:
			d.runtime(k.Value, full, k, v)
		}
	})
}

func (d *document) runtime(name, full string, k, n *yaml.Node) {
	var r Runtime
	before := len(d.errs)
	d.fields(full, n, map[string]setting{
		"extensions": list(full+".extensions", func(*Config) *[]string { return &r.Extensions }),
		"command":    list(full+".command", func(*Config) *[]string { return &r.Command }),
		"compile":    list(full+".compile", func(*Config) *[]string { return &r.Compile }),
		"check":      list(full+".check", func(*Config) *[]string { return &r.Check }),
	}, "a runtime has check, command, compile, extensions")
	if len(d.errs) > before {
		return
	}
	if why := r.wrong(); why != "" {
		d.fail(d.at(k), full, "%s", why)
		return
	}
	for other, has := range d.c.Runtimes {
		for _, e := range r.Extensions {
			if slices.Contains(has.Extensions, e) {
				d.fail(d.at(k), full+".extensions", "%s is an extension of runtimes.%s already", e, other)
			}
		}
	}
	if d.c.Runtimes == nil {
		d.c.Runtimes = map[string]Runtime{}
	}
	d.c.Runtimes[name] = r
}

// wrong says what is wrong with a runtime, "" for nothing.
func (r Runtime) wrong() string {
	makes := func(command []string) bool { return strings.Contains(strings.Join(command, " "), "{program}") }
	switch {
	case len(r.Command) == 0:
		return `command is missing: a list such as [perl] or, after compile, ["{program}"]`
	case len(r.Extensions) == 0:
		return "extensions is missing: a list such as [.pl]"
	case len(r.Compile) > 0 && !makes(r.Compile):
		return "compile leaves no {program}: one of its words must name where it is to be"
	case len(r.Compile) == 0 && makes(r.Command), makes(r.Check):
		return "{program} is what compile makes: only compile, and command beside it, can name it"
	}
	for _, e := range r.Extensions {
		if !extension().MatchString(e) {
			return strings.TrimSpace(e) + " is no extension: it has a dot and up to 16 of a-z, 0-9, +, - and _"
		}
		if slices.Contains(taken(), e) {
			return e + " is an extension of a language that is built in"
		}
	}
	return ""
}

// runtimeOrigins are the settings of the runtimes, by name.
func (c Config) runtimeOrigins() (all []Setting) {
	for _, name := range slices.Sorted(maps.Keys(c.Runtimes)) {
		r, key := c.Runtimes[name], "runtimes."+name
		for _, one := range []struct {
			key   string
			words []string
		}{{"extensions", r.Extensions}, {"command", r.Command}, {"compile", r.Compile}, {"check", r.Check}} {
			all = append(all, Setting{key + "." + one.key, flow(one.words), c.From(key + "." + one.key)})
		}
	}
	return all
}
