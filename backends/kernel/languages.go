package kernel

import (
	"embed"
	"slices"
	"strings"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/validate/notebook"
)

// language describes the kernel of one interpreter.
type language struct {
	name string
	// args start the interpreter with a bootstrap: it reads frame 0 from descriptor 3, which holds
	// the driver's source, and runs that. So no driver has to lie in the sandbox as a file, nor
	// pass through arguments, whose length is limited and which all processes can read.
	args   []string
	driver string
	env    []string // of the interpreter; a session's own variables override it
	codec  codec
}

//go:embed python node shell.sh shell_boot.sh r.R r_boot.sh
var files embed.FS

// languages are assembled when the first kernel starts: most programs start none, and would join 400 KB of drivers for
// nothing.
var languages = sync.OnceValue(func() []language {
	return []language{
		// -S, because the driver does that part only before the first cell.
		{"python", []string{"python", "-S", "-c", pythonFile("boot")}, pythonDriver(),
			// Without a screen, matplotlib draws into memory, and says so only if it has to find out.
			[]string{"MPLBACKEND=Agg"}, jsonCodec{}},
		// What the driver needs of Node's inside is its parser and signals that a second thread gets;
		// code that was terminated leaves async_hooks out of step, which Node would abort for.
		{"node", []string{"node", "--expose-internals", "--no-force-async-hooks-checks", "-e", nodeFile("boot")}, nodeDriver(), nil, jsonCodec{}},
		{"shell", []string{"bash", "--noprofile", "--norc", "-c", driverFile("shell_boot.sh")}, driverFile("shell.sh"), nil, shellCodec{}},
		{"r", []string{"bash", "--noprofile", "--norc", "-c", driverFile("r_boot.sh")}, driverFile("r.R"), nil, rCodec{}},
	}
})

func languageNamed(name string) (language, bool) {
	i := slices.IndexFunc(languages(), func(l language) bool { return l.name == name })
	if i < 0 {
		return language{}, false
	}
	return languages()[i], true
}

// pythonDriver returns the driver in one piece, in the order of its parts' dependencies.
func pythonDriver() string {
	var b strings.Builder
	b.WriteString("NOTEBOOK = " + pythonText(notebook.Python()) + "\fCHARTS = " + pythonText(pythonFile("chart")) + "\f")
	for _, part := range []string{"begin", "private", "json", "frames", "signals", "modules", "settle", "show", "errors", "streams", "units",
		"cells", "plain", "values", "tools", "serve"} {
		b.WriteString(pythonFile(part))
		b.WriteByte('\f') // see python/boot.py
	}
	return b.String()
}

func pythonFile(name string) string { return driverFile("python/" + name + ".py") }

// nodeDriver returns the driver as one function: see node/begin.js, and node/boot.js for its arguments.
func nodeDriver() string {
	var b strings.Builder
	b.WriteString("((main, require, load) => {\n'use strict';\n")
	for _, part := range []string{"begin", "write", "values", "json", "display", "errors", "rewrite", "cells", "stop", "uncaught", "globals", "tools", "variables", "serve"} {
		b.WriteString(nodeFile(part))
	}
	b.WriteString("})")
	return b.String()
}

func nodeFile(name string) string { return driverFile("node/" + name + ".js") }

func driverFile(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic("our bug: " + err.Error()) // it is part of the binary
	}
	return string(text)
}
