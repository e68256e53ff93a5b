package complete

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed fish.fish
var fishHead string

func fish(root Command) string {
	var b, paths, valued strings.Builder
	walk(root, func(path string, c Command) {
		if path != "" {
			fmt.Fprintf(&paths, " %s", fishQuote(path))
		}
		at := fishQuote(fmt.Sprintf("__PROGRAM_at %q", path))
		for _, sub := range c.Commands {
			fmt.Fprintf(&b, "complete -c PROGRAM -n %s -a %s -d %s\n", fishQuote(fmt.Sprintf("__PROGRAM_at %q first", path)), fishQuote(sub.Name), fishQuote(sub.Usage))
		}
		if words := fishSource(c.Words); words != "" {
			fmt.Fprintf(&b, "complete -c PROGRAM -n %s%s\n", at, words)
		}
		for _, f := range c.Flags {
			fmt.Fprintf(&b, "complete -c PROGRAM -n %s%s\n", at, fishFlag(f))
			for _, n := range f.dashed() {
				if f.Value != nil && path != "" {
					fmt.Fprintf(&valued, " %s", fishQuote(path+" "+n))
				}
			}
		}
	})
	for _, f := range root.Flags {
		fmt.Fprintf(&b, "complete -c PROGRAM -n 'not __PROGRAM_at \"\"'%s\n", fishFlag(f))
		if f.Value != nil {
			fmt.Fprintf(&valued, " %s", fishQuote(f.dashed()[0]))
		}
	}
	return fmt.Sprintf("%s\nset -g __PROGRAM_commands%s\nset -g __PROGRAM_valued%s\n\ncomplete -c PROGRAM -f\ncomplete -c PROGRAM -l help -d 'show help'\n%s",
		fishHead, paths.String(), valued.String(), b.String())
}

// fishFlag returns the arguments with which fish's complete is told of a flag.
func fishFlag(f Flag) string {
	var b strings.Builder
	for _, n := range f.Names {
		option := "l"
		if len(n) == 1 {
			option = "s"
		}
		fmt.Fprintf(&b, " -%s %s", option, fishQuote(n))
	}
	if f.Value != nil {
		b.WriteString(" -r")
		if words := fishSource(*f.Value); words != "" {
			b.WriteString(words)
		} else {
			b.WriteString(" -f")
		}
	}
	return b.String() + " -d " + fishQuote(f.Usage)
}

// fishSource returns the arguments with which fish's complete is told of a source of words.
func fishSource(s Source) string {
	switch {
	case s.Files:
		return " -F"
	case s.Dirs:
		return " -f -a '(__fish_complete_directories)'"
	case s.Ask != "":
		return fmt.Sprintf(" -f -a '(__PROGRAM_ask %s)'", s.Ask)
	case len(s.Words) > 0:
		return " -f -a " + fishQuote(strings.Join(s.Words, " "))
	}
	return ""
}

func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
