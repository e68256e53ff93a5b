// Package cmdline sorts a command line for urfave/cli, and suggests the intended command or flag for a misspelled one.
package cmdline

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/exit"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// Parse sorts a command line into the order that urfave/cli understands, which stops parsing flags at the first other
// word: global flags, commands, flags, "--", the other words. A "--" ends the flags; "-" is an ordinary word. Parse
// also reports unknown flags, since it knows whether they were meant for the script.
func Parse(app *cli.App, args []string) ([]string, error) {
	l, err := sortLine(app, args)
	switch {
	case err != nil:
		return nil, err
	case l.help: // whatever else was typed
		return slices.Concat(args[:1], l.global, l.path, []string{"--help"}), nil
	case len(l.path) == 0 && len(l.words) > 0:
		return nil, l.unknownCommand()
	}
	if err := l.mistypedCommand(); err != nil {
		return nil, err
	}
	sorted := slices.Concat(args[:1], l.global, l.path, l.local)
	if len(l.words) > 0 {
		sorted = append(append(sorted, "--"), l.words...)
	}
	return sorted, nil
}

// AsksJSON returns the command of a line and whether it asks for JSON, as far as the line can be parsed.
func AsksJSON(app *cli.App, args []string) (path []string, yes bool) {
	l, _ := sortLine(app, args)
	return l.path, !l.help && (slices.Contains(l.local, "--json") || slices.Contains(l.local, "--json=true"))
}

// sortLine sorts a whole line. wrong is the first error in it.
func sortLine(app *cli.App, args []string) (l line, wrong error) {
	l = line{flags: app.Flags, commands: app.Commands}
	for rest := args[1:]; len(rest) > 0; {
		n, err := l.sortWord(rest)
		if err != nil {
			n, wrong = 1, cmp.Or(wrong, l.asRefusal(err)) // the rest may still ask for JSON
		}
		rest = rest[n:]
	}
	return l, wrong
}

// line is a command line, sorted as far as it was read.
type line struct {
	flags    []cli.Flag // global flags
	own      []cli.Flag // flags of the innermost command
	commands []*cli.Command

	global, path, local, words []string

	help bool // asks for the help of the command in path
}

// isNegativeNumber reports whether a word is a negative number rather than a flag, such as the value of sandboxmcp bridge.
func isNegativeNumber(word string) bool {
	return len(word) > 1 && word[0] == '-' && '0' <= word[1] && word[1] <= '9'
}

// sortWord sorts the first word of rest, and its value if it is a flag that takes one. It returns the number of words.
func (l *line) sortWord(rest []string) (int, error) {
	word := rest[0]
	switch {
	case l.isHostExec() && len(l.words) > 0:
		l.words = append(l.words, rest...)
		return len(rest), nil
	case word == "--":
		if l.isRun() && len(l.words) == 0 { // marks for run that the words are a command
			l.words = append(l.words, word)
		}
		l.words = append(l.words, rest[1:]...)
		return len(rest), nil
	case word == "--version" && len(l.path) == 0:
		word = "version"
	case len(word) > 1 && word[0] == '-' && !isNegativeNumber(word):
		return l.sortFlag(rest)
	}
	for _, c := range l.commands {
		if len(l.words) > 0 || !c.HasName(word) {
			continue
		}
		if len(l.local) > 0 {
			return 0, exit.Usage("put flags after "+word, "%s precedes %s and is not one of its flags", l.local[0], word)
		}
		l.path, l.own, l.commands = append(l.path, word), c.Flags, c.Subcommands
		return 1, nil
	}
	if l.isRun() && len(l.words) > 0 {
		if IsProgram(l.words[0]) {
			return 0, exit.Usage("to run a program: sandboxmcp run -- "+l.words[0]+" "+word, "there is no file %s", terminal.Visible(l.words[0]))
		}
		return 0, exit.Usage("sandboxmcp run "+l.words[0]+" -- "+word, "put the script's own arguments after --, such as %q", word)
	}
	if len(l.words) == 0 && (word == "help" || word == "h") && (len(l.path) == 0 || len(l.commands) > 0) {
		l.help = true
		return 1, nil
	}
	if word == "" && len(l.path) > 0 {
		return 0, exit.Usage("sandboxmcp "+strings.Join(append(l.path, "--help"), " "), "an argument is empty")
	}
	l.words = append(l.words, word)
	if len(l.path) == 0 {
		return 1, l.unknownCommand()
	}
	return 1, nil
}

// acceptEmpty are the flags that accept an empty value: code and reasons. With any other flag, an empty variable in a
// script would ask for more than its author meant, such as for all namespaces.
var acceptEmpty = []string{"c", "reason"}

func (l *line) sortFlag(rest []string) (int, error) {
	flag, value, inline := strings.Cut(rest[0], "=") // the value may be a secret
	if !inline && len(rest) > 1 {
		value = rest[1]
	}
	name := strings.TrimLeft(flag, "-")
	to, f := &l.local, FindFlag(l.own, name)
	if f == nil {
		to, f = &l.global, FindFlag(l.flags, name)
	}
	switch {
	case name == "help" || name == "h":
		l.help = true
		return 1, nil
	case f == nil && l.isRun() && len(l.words) > 0 && IsProgram(l.words[0]):
		return 0, exit.Usage("to run a program: sandboxmcp run -- "+l.words[0]+" "+flag, "there is no file %s", terminal.Visible(l.words[0]))
	case f == nil && l.isRun() && len(l.words) > 0:
		hint := "put the script's own arguments after --: sandboxmcp run " + l.words[0] + " -- " + flag
		if near := l.suggestFlag(name); near != "" {
			hint = near + " Else " + hint
		}
		return 0, exit.Usage(hint, "unknown flag %s", flag)
	case f == nil && len(l.path) > 0 && l.path[0] == "vault": // it may be the value
		return 0, exit.Usage("sandboxmcp "+strings.Join(append(l.path, "--help"), " ")+"; a value that begins with a dash can come by --stdin",
			"unknown flag")
	case f == nil && l.mistypedCommand() != nil: // the flag may belong to the intended command
		return 0, l.mistypedCommand()
	case f == nil:
		return 0, exit.Usage(cmp.Or(suggestOtherVerify(l.path, name), l.suggestFlag(name), "sandboxmcp "+strings.Join(append(l.path, "--help"),
			" ")), "unknown flag %s", flag)
	case takesValue(f) && (inline || len(rest) > 1) && strings.TrimSpace(value) == "" && !slices.Contains(acceptEmpty, f.Names()[0]):
		return 0, exit.Usage("leave it out, or give a value", "the value of %s is empty", flag)
	case inline || !takesValue(f):
		*to = append(*to, rest[0])
		return 1, nil
	case len(rest) == 1 || rest[1] == "--":
		return 0, exit.Usage("sandboxmcp "+strings.Join(append(l.path, "--help"), " "), "flag %s needs a value", flag)
	}
	// As one word, so that a value that begins with a dash remains a value.
	*to = append(*to, rest[0]+"="+rest[1])
	return 2, nil
}

// asRefusal gives errors in a line of run, host exec or session exec the exit code of their other refusals.
func (l *line) asRefusal(err error) error {
	if l.isRun() || l.isHostExec() || slices.Equal(l.path, []string{"session", "exec"}) {
		return exit.AsRefusal(err)
	}
	return err
}

// isRun reports whether this is a line of run, whose words after the file belong to the program.
func (l *line) isRun() bool { return len(l.path) > 0 && l.path[0] == "run" }

// isHostExec reports whether this is a line of host exec, whose words and flags belong to another program.
func (l *line) isHostExec() bool { return slices.Equal(l.path, []string{"host", "exec"}) }

func (l *line) unknownCommand() error {
	word := l.words[0]
	hint := "sandboxmcp --help"
	if near := spelling.Nearest(word, append(CommandNames(l.commands), "help")); strings.ContainsAny(word, "./") {
		hint = "sandboxmcp run " + word
	} else if near != "" {
		hint = "did you mean sandboxmcp " + near + "?"
	}
	return exit.Usage(hint, "unknown command %q", word)
}

// mistypedCommand returns an error for a word that nearly is a subcommand and stands in its place.
func (l *line) mistypedCommand() error {
	if len(l.path) == 0 || len(l.words) == 0 || strings.ContainsAny(l.words[0], "./*:") {
		return nil
	}
	if near := spelling.Nearest(l.words[0], CommandNames(l.commands)); near != "" {
		command := strings.Join(l.path, " ")
		return exit.Usage(fmt.Sprintf("did you mean sandboxmcp %s %s?", command, near), "unknown command %q", command+" "+l.words[0])
	}
	return nil
}

// suggestFlag suggests an existing flag for an unknown one.
func (l *line) suggestFlag(name string) string {
	var known []string
	for _, f := range slices.Concat(l.own, l.flags) {
		known = append(known, f.Names()...)
	}
	if near := spelling.Nearest(name, known); near != "" && len(near) > 1 {
		return "did you mean --" + near + "?"
	}
	return ""
}

// CommandNames returns the names of the commands that help shows.
func CommandNames(commands []*cli.Command) (names []string) {
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Name)
		}
	}
	return names
}

// FindFlag returns the flag of that name, or nil.
func FindFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// suggestOtherVerify returns a hint for a flag of the other command called verify.
func suggestOtherVerify(path []string, flag string) string {
	switch command := strings.Join(path, " "); {
	case command == "verify" && slices.Contains([]string{"proof", "checkpoint", "segment"}, flag):
		return "sandboxmcp audit verify --" + flag + " FILE"
	case command == "audit verify" && slices.Contains([]string{"receipt", "manifest"}, flag):
		return "sandboxmcp verify --" + flag + " FILE"
	}
	return ""
}

// IsProgram reports whether a word is a program on PATH and not a file in the working directory.
func IsProgram(word string) bool {
	if _, err := os.Stat(word); err == nil {
		return false
	}
	path, err := exec.LookPath(word)
	return err == nil && filepath.Base(path) == word
}
