package complete

import (
	_ "embed"
	"fmt"
	"strings"
)

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
