package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/exit"
)

func TestParse(t *testing.T) {
	for _, test := range []struct{ typed, want string }{
		{"run x.py", "run -- x.py"},
		{"run x.py --json", "run --json -- x.py"},
		{"run --timeout 5 x.py --env A=-1 --env=B", "run --timeout=5 --env=A=-1 --env=B -- x.py"},
		{"run --timeout -5 x.py", "run --timeout=-5 -- x.py"},
		{"run x.py -- --json -- a", "run -- x.py --json -- a"},
		{"run x.py --", "run -- x.py"},
		{"run -", "run -- -"},
		{"run audit", "run -- audit"},
		{"run -- pytest -q --json", "run -- -- pytest -q --json"},
		{"run --json -- -", "run --json -- -- -"},
		{"run -c x -- -c y", "run -c=x -- -- -c y"},
		{"run x.py --db d --quiet", "--db=d run --quiet -- x.py"},
		{"--config c run x.py", "--config=c run -- x.py"},
		{"audit verify --json", "audit verify --json"},
		{"audit --json verify", "--json precedes verify"},
		{"audit show 7 --json", "audit show --json -- 7"},
		{"audit --limit 3 show", "--limit=3 precedes show"},
		{"--version", "version"},
		{"run --help", "run --help"},
		{"run x.py -h", "run --help"},
		{"help run", "run --help"},
		{"help", "--help"},
		{"-h", "--help"},
		{"help audit verify", "audit verify --help"},
		{"audit help verify", "audit verify --help"},
		{"audit verify help", "audit verify -- help"},
		{"audit --help verify", "audit verify --help"},
		{"audit verify --json --help", "audit verify --help"},
		{"help nosuch", "--help"},
		{"--version --json", "version --json"},
		{"verfy x", "did you mean sandboxmcp verify?"},
		{"run.py", "sandboxmcp run run.py"},
		{"vault lsit", "did you mean sandboxmcp vault list?"},
		{"audit verfiy --json", "did you mean sandboxmcp audit verify?"},
		{"audit --folow", "did you mean --follow?"},
		{"run --timout 5 x.py", "did you mean --timeout?"},
		{"doctor --jsn", "did you mean --json?"},
		{"doctor --frobnicate", "sandboxmcp doctor --help"},
		{"", ""},
		{"x.py", "unknown command"},
		{"run x.py y", "put the script's own arguments after --"},
		{"bridge 01K9 key -5 --json", "bridge --json -- 01K9 key -5"},
		{"run x.py -5", "put the script's own arguments after --"},
		{"run x.py -v", "unknown flag -v"},
		{"run go test", "to run a program: sandboxmcp run -- go test"},
		{"run --ram 9 go -v", "to run a program: sandboxmcp run -- go -v"},
		{"run --env", "needs a value"},
		{"run --env -- x", "needs a value"},
	} {
		typed := append([]string{"sandboxmcp"}, strings.Fields(test.typed)...)
		got, err := cmdline.Parse((&program{Streams: &command.Streams{Out: io.Discard, Err: io.Discard}}).app(), typed)
		if err != nil {
			if f := exit.FromError(err); !strings.Contains(f.Text+f.Hint, test.want) || f.Hint == "" {
				t.Errorf("%q: got error %q with hint %q, want %q", test.typed, f.Text, f.Hint, test.want)
			}
			continue
		}
		if diff := cmp.Diff(test.want, strings.Join(got[1:], " ")); diff != "" {
			t.Errorf("%q: %s", test.typed, diff)
		}
	}
}

// TestNoValueInErrors checks that messages do not quote misplaced words, which may be secrets.
func TestNoValueInErrors(t *testing.T) {
	for _, line := range []string{"vault add K --vaule=topsecret", "vault add K -topsecret", "vault rotate K --topsecret",
		"run --token=topsecret x.py", "run x.py --token=topsecret"} {
		_, err := cmdline.Parse((&program{Streams: &command.Streams{Out: io.Discard, Err: io.Discard}}).app(),
			append([]string{"sandboxmcp"}, strings.Fields(line)...))
		if f := exit.FromError(err); err == nil || strings.Contains(f.Text+f.Hint, "topsecret") {
			t.Errorf("%s: %v", line, f)
		}
	}
}
