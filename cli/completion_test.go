package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/complete"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
)

// TestAskedWords asks servers for words, as the completion scripts do.
func TestAskedWords(t *testing.T) {
	setTempHome(t)
	ask := func(kind string) string {
		t.Helper()
		var out, errs strings.Builder
		if code := Main([]string{"sandboxmcp", "__complete", kind}, strings.NewReader(""), &out, &errs); code != 0 || errs.Len() > 0 {
			t.Errorf("%s: exit %d, %q", kind, code, errs.String())
		}
		return out.String()
	}
	for _, kind := range []string{askSessions, askApprovals, askServers, askRuns, askVault, "nonsense"} {
		if got := ask(kind); got != "" {
			t.Errorf("%s: got %q where nothing is", kind, got)
		}
	}
	one, _ := serveApprovals(t, 7), serveApprovals(t, 123)
	q := submitQuestion(t, one, approval.Question{Kind: approval.Egress, What: "a.example", Namespace: "team"})
	if got := ask(askApprovals); got != q.Question.ID+"\n" {
		t.Errorf("approvals: got %q", got)
	}
	if got := ask(askServers); got != "7\n123\n" {
		t.Errorf("servers: got %q", got)
	}
}

// TestPlainWords checks that no word that a shell would expand is offered.
func TestPlainWords(t *testing.T) {
	for _, word := range []string{"$(id)", "`id`", "a b", "*", "a;b", "", "a\nb", "~", "a'", `a"`, `a\`, "{a,b}", "a|b", "é"} {
		if plainWord().MatchString(word) {
			t.Errorf("%q passes", word)
		}
	}
	for _, word := range []string{"01K9ZB5W7Q3M8Y2D4F6H8J0K2M", "API_KEY", "a.b-c", "7-1"} {
		if !plainWord().MatchString(word) {
			t.Errorf("%q does not pass", word)
		}
	}
}

// TestCompletionKnows checks that flags and arguments complete to names, files or directories.
func TestCompletionKnows(t *testing.T) {
	found := map[string]string{}
	app := eachCommand(func(path string, c *cli.Command) {
		found[path] = formatSource(argumentSource(path, c))
		for _, f := range c.Flags {
			if s := flagValueSource(&cli.App{}, c, path, "--"+f.Names()[0]); s != nil {
				found[path+" --"+f.Names()[0]] = formatSource(*s)
			}
		}
	})
	found[" --config"] = formatSource(*flagValueSource(app, &cli.Command{}, "", "--config"))
	for name, want := range map[string]string{
		"run": "files", "run --artifacts": "dirs", "run --language": "=python node shell r", "run --backend": "=process podman docker",
		"run --secret": "?vault", "run --timeout": "none", "run --workspace": "dirs", "run --mount": "files", "validate": "files",
		"artifacts": "?runs", "approve": "?approvals", "egress deny": "?approvals", "egress": "none", "events --kind": "=execution.started",
		"audit show": "?runs", "audit": "none", "audit export --format": "=jsonl csv html", "vault rekey": "=file keyring",
		"vault rotate":          "?vault",
		"vault add --from-file": "files", "image": "none", "image pull": "=python node shell r", "image pull --backend": "=podman docker",
		"completion": "=bash zsh fish", "verify": "files", "verify --key": "files", " --config": "files", "install --language": "=python node",
	} {
		if got := found[name]; got != want && !(strings.HasPrefix(want, "=execution") && strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if _, words := completeLine(app, []string{""}, nil); len(words) == 0 ||
		slices.ContainsFunc(words, func(w complete.Word) bool { return w.Text == "__complete" }) {
		t.Errorf("it offers %v", words)
	}
}

// formatSource writes a source in the test's notation: files, dirs, "?" and a kind, "=" and words, or none.
func formatSource(s complete.Source) string {
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
