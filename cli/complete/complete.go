// Package complete writes the scripts by which shells complete command lines.
//
// A script holds all that is known when it is made: commands, flags, and the values that have names. What
// only a running server or the state directory knows, it asks the program for: PROGRAM __complete KIND prints
// a word a line.
package complete

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// Command is a command and all below it.
type Command struct {
	Name     string
	Usage    string // in one line
	Commands []Command
	Flags    []Flag
	Words    Source // what can follow beside flags and subcommands
}

// Flag is a flag of a command.
type Flag struct {
	Names []string // without dashes, the one to offer first
	Usage string
	Value *Source // nil takes none
}

// Source is a source of words to offer. The zero value offers nothing.
type Source struct {
	Words []string
	Files bool
	Dirs  bool
	Ask   string // a KIND to ask the program for
}

// Shells are those that Write knows.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// Write writes the script for a shell, root being the program with its global flags.
func Write(w io.Writer, shell string, root Command) error {
	var text string
	switch shell {
	case "bash":
		text = bash(root)
	case "zsh":
		text = zsh(root)
	case "fish":
		text = fish(root)
	default:
		return fmt.Errorf("write a completion for %q: there is none", shell)
	}
	_, err := io.WriteString(w, strings.ReplaceAll(text, "PROGRAM", root.Name))
	return err
}

// walk calls f with each command below root and its path, without the program's name; root's is "".
func walk(root Command, f func(path string, c Command)) {
	var down func(path string, c Command)
	down = func(path string, c Command) {
		f(path, c)
		for _, sub := range c.Commands {
			down(strings.TrimSpace(path+" "+sub.Name), sub)
		}
	}
	down("", root)
}

// dashed are the names of a flag as they are typed.
func (f Flag) dashed() (names []string) {
	for _, n := range f.Names {
		if len(n) == 1 {
			names = append(names, "-"+n)
		} else {
			names = append(names, "--"+n)
		}
	}
	return names
}

// String returns how the scripts of bash and zsh write a source: files, dirs, "?" and a kind, "=" and words, or
// none.
func (s Source) String() string {
	switch {
	case s.Files:
		return "files"
	case s.Dirs:
		return "dirs"
	case s.Ask != "":
		return "?" + s.Ask
	case len(s.Words) > 0:
		return "=" + strings.Join(s.Words, " ")
	}
	return "none"
}

// quote makes one word of a text, for bash and zsh.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// values writes a line of a case statement for each flag that takes a value.
func values(b *strings.Builder, path string, flags []Flag) {
	for _, f := range flags {
		if f.Value == nil {
			continue
		}
		var patterns []string
		for _, n := range f.dashed() {
			if path == "*" {
				patterns = append(patterns, "*"+quote(" "+n))
			} else {
				patterns = append(patterns, quote(path+" "+n))
			}
		}
		fmt.Fprintf(b, "\t%s) value=%s ;;\n", strings.Join(patterns, "|"), quote(f.Value.String()))
	}
}

//go:embed bash.sh
var bashHead string

func bash(root Command) string {
	var at, value strings.Builder
	walk(root, func(path string, c Command) {
		var names, flags []string
		for _, sub := range c.Commands {
			names = append(names, sub.Name)
		}
		for _, f := range c.Flags {
			flags = append(flags, f.dashed()...)
		}
		if path != "" {
			values(&value, path, c.Flags)
			for _, f := range root.Flags {
				flags = append(flags, f.dashed()...)
			}
		}
		fmt.Fprintf(&at, "\t%s) commands=%s flags=%s words=%s ;;\n", quote(path), quote(strings.Join(names, " ")),
			quote(strings.Join(append(flags, "--help"), " ")), quote(c.Words.String()))
	})
	values(&value, "*", root.Flags)
	return fmt.Sprintf("%s\n__PROGRAM_at() {\n\tcase $1 in\n%s\tesac\n}\n\n__PROGRAM_value() {\n\tvalue=''\n\tcase \"$1 $2\" in\n%s\tesac\n}\n\ncomplete -F _PROGRAM PROGRAM\n",
		bashHead, at.String(), value.String())
}

//go:embed zsh.zsh
var zshHead string

func zsh(root Command) string {
	var at, value strings.Builder
	walk(root, func(path string, c Command) {
		flags := c.Flags
		if path != "" {
			values(&value, path, c.Flags)
			flags = append(flags[:len(flags):len(flags)], root.Flags...)
		}
		fmt.Fprintf(&at, "\t%s)\n\t\twords_=%s\n\t\tcommands=(", quote(path), quote(c.Words.String()))
		for _, sub := range c.Commands {
			fmt.Fprintf(&at, "\n\t\t\t%s", quote(sub.Name+":"+sub.Usage))
		}
		at.WriteString(")\n\t\tflags=(")
		for _, f := range append(flags[:len(flags):len(flags)], Flag{Names: []string{"help"}, Usage: "show help"}) {
			for _, n := range f.dashed() {
				fmt.Fprintf(&at, "\n\t\t\t%s", quote(n+":"+f.Usage))
			}
		}
		at.WriteString(")\n\t\t;;\n")
	})
	values(&value, "*", root.Flags)
	return fmt.Sprintf("%s\n__PROGRAM_at() {\n\tcase $1 in\n%s\tesac\n}\n\n__PROGRAM_value() {\n\tvalue=''\n\tcase \"$1 $2\" in\n%s\tesac\n}\n\n%s",
		zshHead, at.String(), value.String(), zshTail)
}

// zshTail is for a script that was sourced, and for one that zsh loads when it first needs it.
const zshTail = `if [[ $funcstack[1] == _PROGRAM ]]; then
	_PROGRAM "$@"
else
	compdef _PROGRAM PROGRAM
fi
`
