package warm

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// poolKey identifies interchangeable idle sandboxes: the parts of a Spec that can't be changed after the start.
type poolKey struct {
	language string
	require  string // sorted, space-separated
	limits   backends.Limits
	dns      bool
	options  string // of the interpreter, space-separated
	env      string // variables that Node reads at its start, NUL-separated
	script   string // the file that it will run, relative to the workspace; "" if the interpreter is started for the command
}

// poolKeyOf returns the key of the idle sandboxes that fit a program, or the reason why there can be none.
func poolKeyOf(spec backends.Spec) (r poolKey, why string) {
	if why = coldOnlyReason(spec); why != "" {
		return r, why
	}
	require := slices.Clone(spec.Require)
	slices.Sort(require)
	r = poolKey{language: spec.Language, require: strings.Join(slices.Compact(require), " "), limits: spec.Limits.WithDefaults(),
		dns: spec.DNS}
	args := spec.Program.Args
	switch {
	case r.language == "shell":
		if len(args) == 2 && args[0] == "bash" && simpleFileName(args[1]) && isExportable(spec.Program.Env) {
			r.script = args[1] // otherwise bash is started for the command
		}
		return r, ""
	case r.language != "python" && r.language != "node":
		return r, r.language + " is not kept ready"
	case len(args) == 0 || args[0] != r.language:
		return r, "another program than " + r.language
	}
	args = args[1:]
	if r.language == "node" && len(args) > 0 && args[0] == sourceMaps {
		r.options, args = sourceMaps, args[1:]
	}
	if len(args) == 0 || !simpleFileName(args[0]) {
		return r, "the program is not a file of the workspace"
	}
	r.script = args[0]
	switch {
	case r.language == "node" && path.Ext(r.script) != ".js":
		return r, "the program's name does not end in .js"
	case r.language == "node" && len(args) > 1:
		return r, "node reads its arguments when it starts"
	case r.language == "node":
		for _, kv := range spec.Program.Env {
			if name, _, _ := strings.Cut(kv, "="); !slices.Contains(common, name) {
				return r, "node reads its variables when it starts"
			}
		}
		r.env = strings.Join(spec.Program.Env, "\x00")
	}
	return r, ""
}

// common are variables that all programs of a server or a session share, and that are not secret: an idle Node is
// started with them.
var common = []string{"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "NPM_CONFIG_FETCH_RETRIES",
	"PIP_RETRIES"}

// sourceMaps is the only option of Node that an idle interpreter can have.
const sourceMaps = "--enable-source-maps"

// coldOnlyReason returns the part of spec that an idle sandbox can't have; "" if there is none.
func coldOnlyReason(spec backends.Spec) string {
	for why, is := range map[string]bool{
		"host directories are mounted":                 len(spec.Mounts) > 0 || spec.Workspace.Host != "" || spec.Workspace.Propose,
		"it has network access":                        len(spec.Gateway) > 0,
		"it trusts a certificate":                      len(spec.Trust) > 0,
		"it has files of /etc":                         len(spec.Etc) > 0,
		"it shows GPUs":                                len(spec.GPUs) > 0,
		"it is a session":                              spec.Keep || spec.Program.Main,
		"the profile has no root directory of its own": spec.Profile != "" && spec.Profile != "hardened",
		"it starts in another directory":               spec.Program.Dir != "" && spec.Program.Dir != backends.Workspace,
		"the command can't be run":                     process.CheckCommand(*spec.Program) != nil,
	} {
		if is {
			return why
		}
	}
	if spec.Language == "shell" { // which starts on request
		return ""
	}
	size := 0
	for _, s := range slices.Concat(spec.Program.Args, spec.Program.Env) {
		size += len(s) + 1
	}
	if size > maxAssignment {
		return "arguments and environment are too large"
	}
	for _, kv := range spec.Program.Env {
		if name, _, _ := strings.Cut(kv, "="); readAtStart(name) {
			return name + " is set"
		}
	}
	return ""
}

// readAtStart reports whether an interpreter, or one of its libraries, reads a variable before it opens the
// program.
func readAtStart(name string) bool {
	switch name {
	case "HOME", "PATH", "LANG", "LANGUAGE", "TZ", "TZDIR", "LOCPATH", "LOCALDOMAIN", "RES_OPTIONS", "NLSPATH", "OUTPUT_CHARSET":
		return true
	}
	return slices.ContainsFunc([]string{
		"PYTHON", "NODE_", "LD_", "LC_", "GCONV_", "GLIBC_", "MALLOC_", "OPENSSL_", "SSL_", "ICU_", "UV_", "V8_", "GETCONF_", "__PYVENV",
	}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// simpleFileName reports whether a script's name is that of a file directly in the workspace, with ordinary
// characters only.
func simpleFileName(name string) bool {
	ordinary := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
	}
	return name != "" && name[0] != '-' && name[0] != '.' && name != "package.json" && len(name) < 100 &&
		strings.IndexFunc(name, func(r rune) bool { return !ordinary(r) }) < 0
}

// spec returns the Spec of an idle sandbox of this key.
func (r poolKey) spec() backends.Spec {
	return backends.Spec{ID: "ready", Language: r.language, Require: strings.Fields(r.require), Limits: r.limits, DNS: r.dns}
}

// args returns the arguments of the idle interpreter.
func (r poolKey) args() []string {
	program := r.language
	if program == "shell" {
		program = "bash"
	}
	return append(append([]string{program}, strings.Fields(r.options)...), r.script)
}

// Kind implements [pool.Key].
func (r poolKey) Kind() (language string, ram int64) { return r.language, r.limits.RAM }

// isExportable reports whether an idle bash can receive these variables as if it had started with them.
func isExportable(env []string) bool {
	size := 0
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if size += len(kv); size > maxAssignment || readAtStart(name) || isBashVariable(name) || !utf8.ValidString(value) ||
			strings.ContainsFunc(value, unicode.IsControl) {
			return false
		}
	}
	return true
}

// isBashVariable reports whether bash(1) sets or uses a variable itself, or its name is invalid.
func isBashVariable(name string) bool {
	for i, r := range name {
		if letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'; !letter && (i == 0 || r < '0' || r > '9') {
			return true
		}
	}
	return slices.ContainsFunc([]string{"BASH", "COMP", "EPOCH", "FUNC", "GLOB", "HIST", "HOST", "MAIL", "OPT", "PS", "READLINE", "SHELL"},
		func(prefix string) bool {
			return strings.HasPrefix(name, prefix)
		}) || slices.Contains([]string{
		"_", "CDPATH", "CHILD_MAX", "COLUMNS", "COPROC", "DIRSTACK", "EMACS", "ENV", "EUID", "EXECIGNORE", "FCEDIT", "FIGNORE", "GROUPS", "IFS",
		"IGNOREEOF",
		"INPUTRC", "INSIDE_EMACS", "LINENO", "LINES", "MACHTYPE", "MAPFILE", "OLDPWD", "OSTYPE", "PIPESTATUS", "POSIXLY_CORRECT",
		"POSIX_PEDANTIC", "PPID",
		"PROMPT_COMMAND", "PROMPT_DIRTRIM", "PWD", "RANDOM", "REPLY", "SECONDS", "SHLVL", "SRANDOM", "TERM", "TERMCAP", "TIMEFORMAT", "TMOUT",
		"UID",
	}, name)
}

// maxAssignment bounds the bytes of an idle interpreter's arguments and variables.
const maxAssignment = 28 << 10
