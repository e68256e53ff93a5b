// Package complete has the scripts by which shells complete command lines: they ask the program, at each press of the
// tab key, what can stand where somebody types.
package complete

import (
	"embed"
	"fmt"
	"io"
	"strings"
)

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

// Script writes the script of a shell for a program. It asks by PROGRAM __complete words SHELL, with the words that
// were typed on standard input, each with a NUL behind it: all users of a machine can read what programs are started
// with.
func Script(w io.Writer, shell, program string) error {
	text, err := scripts.ReadFile(map[string]string{"bash": "bash.sh", "zsh": "zsh.zsh", "fish": "fish.fish"}[shell])
	if err != nil {
		return fmt.Errorf("write a completion for %q: there is none", shell)
	}
	_, err = io.WriteString(w, strings.ReplaceAll(string(text), "PROGRAM", program))
	return err
}

// Print writes an offer as the script of a shell reads it: a line that says whether files or directories are meant,
// too, and a line for each word.
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
