package complete

import (
	_ "embed"
	"fmt"
	"strings"
)

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
