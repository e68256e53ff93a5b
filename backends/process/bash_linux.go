package process

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// bashWaits has bash read its assignment.
const bashWaits = "BASH_ENV=/proc/self/fd/3"

// bashAssignment makes an idle bash equal to one that has just begun with these variables: no time has passed, and no trace
// of the wait is left. The last word is the value of _ where a script begins.
func bashAssignment(env []string) []byte {
	var b strings.Builder
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		b.WriteString("export " + name + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'\n")
	}
	b.WriteString("SECONDS=0\nunset -v BASH_ENV\nexec 3<&-\n: \"$BASH\"\n")
	return []byte(b.String())
}

// exportable reports whether an idle bash can be given these variables as if it had begun with them.
func exportable(env []string) bool {
	size := 0
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if size += len(kv); size > spareBytes || readAtStart(name) || bashs(name) || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
			return false
		}
	}
	return true
}

// bashs reports whether a variable is one that bash(1) sets or uses itself, or is no valid name.
func bashs(name string) bool {
	for i, r := range name {
		if letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'; !letter && (i == 0 || r < '0' || r > '9') {
			return true
		}
	}
	return slices.ContainsFunc([]string{"BASH", "COMP", "EPOCH", "FUNC", "GLOB", "HIST", "HOST", "MAIL", "OPT", "PS", "READLINE", "SHELL"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	}) || slices.Contains([]string{
		"_", "CDPATH", "CHILD_MAX", "COLUMNS", "COPROC", "DIRSTACK", "EMACS", "ENV", "EUID", "EXECIGNORE", "FCEDIT", "FIGNORE", "GROUPS", "IFS", "IGNOREEOF",
		"INPUTRC", "INSIDE_EMACS", "LINENO", "LINES", "MACHTYPE", "MAPFILE", "OLDPWD", "OSTYPE", "PIPESTATUS", "POSIXLY_CORRECT", "POSIX_PEDANTIC", "PPID",
		"PROMPT_COMMAND", "PROMPT_DIRTRIM", "PWD", "RANDOM", "REPLY", "SECONDS", "SHLVL", "SRANDOM", "TERM", "TERMCAP", "TIMEFORMAT", "TMOUT", "UID",
	}, name)
}
