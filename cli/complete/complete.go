// Package complete has the completion scripts of shells. They ask the program, each time that the tab key is pressed,
// which words can stand at the cursor.
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

// Word is an offered word and its description.
type Word struct{ Text, Usage string }

// Shells are the shells that Script and Print support.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

//go:embed bash.sh zsh.zsh fish.fish
var scripts embed.FS

// Script writes the completion script of a shell. The script calls PROGRAM __complete words SHELL with the typed words
// on standard input, each followed by a NUL: all users of a machine can read command lines.
func Script(w io.Writer, shell, program string) error {
	text, err := scripts.ReadFile(map[string]string{"bash": "bash.sh", "zsh": "zsh.zsh", "fish": "fish.fish"}[shell])
	if err != nil {
		return fmt.Errorf("write a completion for %q: there is none", shell)
	}
	_, err = io.WriteString(w, strings.ReplaceAll(string(text), "PROGRAM", program))
	return err
}

// Print writes the offered words in the format of the shell's script: a line that says whether files or directories are
// meant, and a line for each word.
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
