// Package complete completes command lines: its scripts for shells ask the program, at each press of the tab key, what can stand
// where somebody types.
package complete

import (
	"embed"
	"fmt"
	"io"
	"slices"
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
	Ask   string // a kind of words that only a server or the state directory knows
}

// Word is an offered word, and what it is for.
type Word struct{ Text, Usage string }

// Shells are those that Script and Print know.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

//go:embed bash.sh zsh.zsh fish.fish
var scripts embed.FS

// Script writes the script of a shell for a program. It asks by PROGRAM __complete words SHELL, with the words that were typed on
// standard input, each with a NUL behind it: all users of a machine can read what programs are started with.
func Script(w io.Writer, shell, program string) error {
	text, err := scripts.ReadFile(map[string]string{"bash": "bash.sh", "zsh": "zsh.zsh", "fish": "fish.fish"}[shell])
	if err != nil {
		return fmt.Errorf("write a completion for %q: there is none", shell)
	}
	_, err = io.WriteString(w, strings.ReplaceAll(string(text), "PROGRAM", program))
	return err
}

// Offer returns what can stand in the place of the last of the words that were typed behind the program's name. ask returns the words
// of a kind.
func Offer(root Command, typed []string, ask func(kind string) []string) (s Source, words []Word) {
	at, ended, others := root, false, false
	var flag *Flag // whose value comes next
	last := typed[len(typed)-1]
	for _, word := range typed[:len(typed)-1] {
		switch sub := slices.IndexFunc(at.Commands, func(c Command) bool { return c.Name == word }); {
		case flag != nil:
			if word != "=" { // which is a word of its own in bash
				flag = nil
			}
		case ended:
		case word == "--":
			ended = true
		case strings.HasPrefix(word, "-"):
			flag = valued(root, at, word)
		case !others && sub >= 0:
			at = at.Commands[sub]
		default:
			others = true
		}
	}
	flags := slices.Concat(at.Flags, []Flag{{Names: []string{"help"}, Usage: "show help"}})
	if at.Name != root.Name {
		flags = slices.Concat(flags, root.Flags)
	}
	name, _, inline := strings.Cut(last, "=")
	prefix := ""
	switch {
	case flag != nil:
		s = *flag.Value
	case !ended && inline && strings.HasPrefix(last, "-"):
		if flag = valued(root, at, name); flag != nil {
			s, prefix = *flag.Value, name+"="
		}
	case !ended && strings.HasPrefix(last, "-"):
		for _, f := range flags {
			for _, n := range f.dashed() {
				words = append(words, Word{n, f.Usage})
			}
		}
	default:
		for _, sub := range at.Commands {
			if !others && !ended {
				words = append(words, Word{sub.Name, sub.Usage})
			}
		}
		s = at.Words
	}
	if s.Ask != "" {
		s.Words = ask(s.Ask)
	}
	for _, word := range s.Words {
		words = append(words, Word{Text: prefix + word})
	}
	return s, words
}

// valued returns the flag of a command or of the program that is typed like this, nil if there is none or it takes no value.
func valued(root, at Command, typed string) *Flag {
	for _, f := range slices.Concat(at.Flags, root.Flags) {
		if f.Value != nil && slices.Contains(f.dashed(), typed) {
			return &f
		}
	}
	return nil
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

// Print writes an offer as the script of a shell reads it: a line that says whether files or directories are meant, too, and a line
// for each word.
func Print(w io.Writer, shell string, s Source, words []Word) error {
	var b strings.Builder
	switch {
	case s.Files:
		b.WriteString("files\n")
	case s.Dirs:
		b.WriteString("dirs\n")
	default:
		b.WriteString("words\n")
	}
	for _, word := range words {
		b.WriteString(word.Text)
		if between := map[string]string{"zsh": ":", "fish": "\t"}[shell]; between != "" && word.Usage != "" {
			b.WriteString(between + word.Usage)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
