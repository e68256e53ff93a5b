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
	// args start the interpreter with a bootstrap, which reads frame 0 (the driver's source) from descriptor 3 and
	// runs it. So the driver is not a file in the sandbox, and not an argument, whose length is limited and which
	// all processes can read.
	args   []string
	driver string
	env    []string // of the interpreter; a session's variables override it
	codec  codec
}

//go:embed python node shell.sh shell_boot.sh r.R r_boot.sh
var files embed.FS

// languages are assembled when the first kernel starts: most processes start none, and would join 400 KB of drivers
// for nothing.
var languages = sync.OnceValue(func() []language {
	return []language{
		// -S, because the driver imports site only before the first cell.
		{"python", []string{"python", "-S", "-c", pythonFile("boot")}, pythonDriver(),
			// Setting the backend keeps matplotlib from searching for a screen and reporting that there is none.
			[]string{"MPLBACKEND=Agg"}, jsonCodec{}},
		// The driver needs two of Node's internals: its parser, and signals that a second thread receives.
		// Terminated code leaves async_hooks out of step, for which Node would abort.
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
	for _, part := range []string{"begin", "write", "values", "json", "display", "errors", "rewrite", "cells", "stop", "uncaught", "globals",
		"tools", "variables", "serve"} {
		b.WriteString(nodeFile(part))
	}
	b.WriteString("})")
	return b.String()
}

func nodeFile(name string) string { return driverFile("node/" + name + ".js") }

func driverFile(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic("our bug: " + err.Error()) // the file is part of the binary
	}
	return string(text)
}
