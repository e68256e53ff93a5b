package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// Runtime is a language of the operator. In its commands, {file} is the path of the code, and {program} the path of
// Compile's output.
type Runtime struct {
	Extensions []string `key:"extensions"` // of its files, with the dot, in lower case
	Command    []string `key:"command"`
	Compile    []string `key:"compile"` // nil: not compiled
	Check      []string `key:"check"`   // syntax check; nil: none
	Kernel     []string `key:"kernel"`  // starts the kernel of a session; nil: no sessions. {driver} is replaced by the file with Source.
	Driver     string   // path of a file on this machine; "": none
	Source     string   // content of Driver
}

// maxDriver bounds a driver, in bytes.
const maxDriver = 1 << 20

// reservedNames returns the built-in languages and the extensions of their files.
func reservedNames() []string {
	return strings.Fields("python python3 py ipython node nodejs javascript js node.js ecmascript typescript ts shell bash sh zsh r " +
		"rscript command " +
		".py .js .mjs .cjs .ts .mts .cts .sh .bash .r")
}

var extensionPattern = lazy.Regexp(`^\.[a-z0-9][a-z0-9+_-]{0,15}$`)

// readRuntimes reads the operator's own languages.
func (d *document) readRuntimes(n *yaml.Node) {
	d.eachPair("runtimes.", n, func(full string, k, v *yaml.Node) {
		switch {
		case slices.Contains(reservedNames(), k.Value):
			d.fail(d.position(k), full, "this language is built in: choose another name")
		case !profileName().MatchString(k.Value):
			d.fail(d.position(k), "runtimes", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", k.Value)
		default:
			d.readRuntime(k.Value, full, k, v)
		}
	})
}

func (d *document) readRuntime(name, full string, k, n *yaml.Node) {
	var r Runtime
	before := len(d.errs)
	fields := append(r.settings(full), setting{key: full + ".driver", kind: pathKind(&r.Driver)})
	d.applyFields(full, n, fields, "a runtime has check, command, compile, driver, extensions, kernel")
	if len(d.errs) > before {
		return
	}
	if why := r.problem(); why != "" {
		d.fail(d.position(k), full, "%s", why)
		return
	}
	if r.Driver != "" {
		text, err := os.ReadFile(r.Driver)
		if err == nil && (len(text) == 0 || len(text) > maxDriver) {
			err = fmt.Errorf("%s has %d bytes: a driver has 1 to %d", r.Driver, len(text), maxDriver)
		}
		if r.Source = string(text); err != nil {
			d.fail(d.position(k), full+".driver", "%v", err)
			return
		}
	}
	for other, has := range d.c.Runtimes {
		for _, e := range r.Extensions {
			if slices.Contains(has.Extensions, e) {
				d.fail(d.position(k), full+".extensions", "%s is an extension of runtimes.%s already", e, other)
			}
		}
	}
	if d.c.Runtimes == nil {
		d.c.Runtimes = map[string]Runtime{}
	}
	d.c.Runtimes[name] = r
}

// problem returns the error in a runtime, or "".
func (r Runtime) problem() string {
	has := func(command []string, word string) bool { return strings.Contains(strings.Join(command, " "), word) }
	switch {
	case len(r.Command) == 0:
		return `command is missing: a list such as [perl] or, after compile, ["{program}"]`
	case len(r.Extensions) == 0:
		return "extensions is missing: a list such as [.pl]"
	case len(r.Compile) > 0 && !has(r.Compile, "{program}"):
		return "compile leaves no {program}: one of its words must name where it is to be"
	case len(r.Compile) == 0 && has(r.Command, "{program}"), has(r.Check, "{program}"):
		return "{program} is what compile makes: only compile, and command beside it, can name it"
	case has(r.Kernel, "{file}"), has(r.Kernel, "{program}"):
		return "kernel starts before there is code: {file} and {program} are not for it"
	case has(r.Kernel, "{driver}") != (r.Driver != ""):
		return "driver and the word {driver} of kernel go together: the one is a file here, the other where the sandbox has it"
	}
	for _, e := range r.Extensions {
		if !extensionPattern().MatchString(e) {
			return strings.TrimSpace(e) + " is not an extension: write a dot and up to 16 of a-z, 0-9, +, - and _"
		}
		if slices.Contains(reservedNames(), e) {
			return e + " is an extension of a language that is built in"
		}
	}
	return ""
}

// settings returns the settings of a runtime except for its driver; their keys begin with key.
func (r *Runtime) settings(key string) []setting {
	return fieldsOf(nil, key+".", reflect.ValueOf(r).Elem(), false)
}
