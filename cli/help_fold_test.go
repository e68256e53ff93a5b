package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

func TestFoldHelp(t *testing.T) {
	const help = `USAGE:
   sandboxmcp run [--one ONE] [--two TWO]

DESCRIPTION:
   A first line of prose
   and a second.

   A list:
     one  what the first word means
   Example: sandboxmcp run a-long-name.py --flag

OPTIONS:
   --ram MB  MB of memory for it all
   --help    show help
`
	const want = `USAGE:
   sandboxmcp run [--one ONE]
     [--two TWO]

DESCRIPTION:
   A first line of prose and
   a second.

   A list:
     one  what the first word
          means
   Example: sandboxmcp run a-long-name.py --flag

OPTIONS:
   --ram MB  MB of memory for
             it all
   --help    show help
`
	if diff := cmp.Diff(want, terminal.Fold(help, 29)); diff != "" {
		t.Error(diff)
	}
	const narrow = "OPTIONS:\n   --ram MB\n       MB of memory\n       for it all\n   --help\n       show help\n"
	if diff := cmp.Diff(narrow, terminal.Fold(help[strings.Index(help, "OPTIONS:"):], 20)); diff != "" {
		t.Error(diff)
	}
	if got := terminal.Fold(help, 0); got != help {
		t.Errorf("in a pipe: %q", got)
	}
	if got := terminal.Fold("", 30); got != "" { // a command without help
		t.Errorf("nothing became %q", got)
	}
}

// TestHelpFits checks that no line of a help is longer than a terminal of 80 columns, except for examples and code,
// which are copied, and that no text is lost.
func TestHelpFits(t *testing.T) {
	eachCommand(func(path string, _ *cli.Command) {
		var out, errs strings.Builder
		Main(append([]string{"sandboxmcp"}, append(strings.Fields(path), "--help")...), strings.NewReader(""), &out, &errs)
		folded := terminal.Fold(out.String(), 80)
		if diff := cmp.Diff(strings.Fields(out.String()), strings.Fields(folded)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
		for line := range strings.Lines(folded) {
			if len(line) > 81 && !strings.HasPrefix(line, "     ") && !strings.HasPrefix(line, "   Example:") {
				t.Errorf("%s: %d columns: %s", path, len(line)-1, line)
			}
		}
	})
}
