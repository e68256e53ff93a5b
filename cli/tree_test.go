package cli

import (
	"encoding/json"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
)

// eachCommand calls f with each visible command and its path.
func eachCommand(f func(path string, c *cli.Command)) *cli.App {
	app := (&program{Streams: &command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}}).app()
	var down func(above string, commands []*cli.Command)
	down = func(above string, commands []*cli.Command) {
		for _, c := range commands {
			if path := strings.TrimSpace(above + " " + c.Name); !c.Hidden {
				f(path, c)
				down(path, c.Subcommands)
			}
		}
	}
	down("", app.Commands)
	return app
}

// withoutJSON are commands without --json: they write a file as it is, talk to a program or a person, or only group
// subcommands.
var withoutJSON = map[string]bool{
	"serve": true, "vault": true, "token": true, "audit report": true, "audit export": true, "audit checkpoint": true, "audit proof": true,
	"audit receipt": true, "changes export": true,
	"key": true, "key export": true, "image": true, "image pull": true, "image build": true, "completion": true, "man": true,
	"queue": true, "session": true, "session attach": true, "web": true, "host": true, "host access": true, "host access revoke": true,
	"setup": true, "setup systemd": true, "setup kubernetes": true,
}

// TestTree checks the help of each command.
func TestTree(t *testing.T) {
	flag := regexp.MustCompile(`(^|[\s\[(|])(--?[a-z][a-z0-9-]*)`)
	eachCommand(func(path string, c *cli.Command) {
		if c.Usage == "" || strings.HasSuffix(c.Usage, ".") || strings.Contains(c.Usage, "\n") {
			t.Errorf("%s: its Usage is not a line without a full stop: %q", path, c.Usage)
		}
		if !strings.HasPrefix(c.UsageText, "sandboxmcp "+path) {
			t.Errorf("%s: its UsageText is of something else: %q", path, c.UsageText)
		}
		if !strings.Contains(c.Description, "Example: ") && !strings.Contains(c.Description, "Examples:\n") {
			t.Errorf("%s: no Example in its help", path)
		}
		if cmdline.FindFlag(c.Flags, "json") == nil && !withoutJSON[path] {
			t.Errorf("%s: no --json; it is not in the list of those that print no facts", path)
		}
		if c.Action == nil {
			t.Errorf("%s: no Action", path)
		}
		for line := range strings.Lines(c.UsageText) {
			owner := ownerOfLine(c, path, line)
			for _, m := range flag.FindAllStringSubmatch(line, -1) {
				if cmdline.FindFlag(owner.Flags, strings.TrimLeft(m[2], "-")) == nil && m[2] != "--" {
					t.Errorf("%s: its usage has %s, which is not one of its flags: %s", path, m[2], line)
				}
			}
		}
		for _, f := range c.Flags {
			if d := f.(cli.DocGenerationFlag); d.GetUsage() == "" || d.TakesValue() && cmdline.Placeholder(d.GetUsage()) == "" {
				t.Errorf("%s --%s: its usage does not say what it is, or takes: %q", path, f.Names()[0], d.GetUsage())
			}
		}
	})
}

// TestErrorsAreJSON types invalid and failing command lines of each command with --json: stdout has one JSON value with
// the reason, and stderr has it for people.
func TestErrorsAreJSON(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, dir)
	}
	missing := filepath.Join(dir, "none.yaml")
	failed := 0
	eachCommand(func(path string, c *cli.Command) {
		if cmdline.FindFlag(c.Flags, "json") == nil {
			return
		}
		for _, more := range [][]string{{"--json", "--no-such-flag"}, {"--no-such-flag", "--json"}, {"--json", "--config", missing},
			{"--json", "--config=" + missing, "one", "two", "three", "four"}} {
			var out, errs strings.Builder
			line := append(strings.Fields("sandboxmcp "+path), more...)
			code := Main(line, strings.NewReader(""), &out, &errs)
			var got struct {
				Refused struct{ Reason, Remedy string }
				Problem string // of a verdict
			}
			if code == 0 && json.Valid([]byte(out.String())) { // it needs no configuration
				continue
			}
			d := json.NewDecoder(strings.NewReader(out.String()))
			if err := d.Decode(&got); err != nil || d.More() {
				t.Errorf("%q: exit %d, stdout %q, stderr %q: no value of JSON: %v", line, code, out.String(), errs.String(), err)
				continue
			}
			failed++
			if got.Problem == "" && got.Refused.Reason == "" || !strings.Contains(errs.String(), got.Refused.Reason) {
				t.Errorf("%q: exit %d, %+v, and to people %q", line, code, got, errs.String())
			}
		}
	})
	if failed < 100 {
		t.Errorf("only %d lines failed", failed)
	}
}

// acceptEmpty are the flags that accept an empty value, and its meaning.
var acceptEmpty = map[string]string{"c": "a program without a statement", "reason": "none"}

// TestNothingIsNotAll passes an empty value to each flag of each command, and an empty word to each command: none
// counts as left out, which might mean more, such as all namespaces. It covers new flags, too.
func TestNothingIsNotAll(t *testing.T) {
	app, typed := eachCommand(func(string, *cli.Command) {}), 0
	refused := func(line ...string) {
		t.Helper()
		typed++
		if _, err := cmdline.Parse(app, line); err == nil || !strings.Contains(err.Error(), " is empty") {
			t.Errorf("%q: got %v", line, err)
		}
	}
	eachCommand(func(path string, c *cli.Command) {
		words := strings.Fields("sandboxmcp " + path)
		for _, f := range slices.Concat(c.Flags, app.Flags) {
			name := f.Names()[0]
			if !f.(cli.DocGenerationFlag).TakesValue() || acceptEmpty[name] != "" {
				continue
			}
			flag := "--" + name
			refused(append(slices.Clone(words), flag, "")...)
			refused(append(slices.Clone(words), flag, " ")...)
			refused(append(slices.Clone(words), flag+"=")...)
		}
		refused(append(slices.Clone(words), "")...)
	})
	if typed < 1000 {
		t.Errorf("only %d lines were typed", typed)
	}
}

// ownerOfLine returns the command in a line of a usage: c, or a subcommand.
func ownerOfLine(c *cli.Command, path, line string) *cli.Command {
	rest, _ := strings.CutPrefix(line, "sandboxmcp "+path+" ")
	for _, word := range strings.Fields(rest) {
		i := slices.IndexFunc(c.Subcommands, func(s *cli.Command) bool { return s.HasName(word) })
		if i < 0 {
			break
		}
		c = c.Subcommands[i]
	}
	return c
}

// TestCommands checks that the documented commands exist.
func TestCommands(t *testing.T) {
	found := map[string]bool{}
	eachCommand(func(path string, c *cli.Command) { found[path] = true })
	for _, want := range []string{
		"serve", "run", "doctor", "bench", "config", "queue status", "artifacts", "egress", "approvals list", "approve", "deny", "validate",
		"install",
		"page", "session list", "session create", "session exec", "session kill", "session attach", "session stats",
		"inspect", "bridge", "limits", "runtimes", "vault add", "vault list", "vault delete", "vault verify", "audit", "events",
		"web search", "web fetch", "web browser", "host exec", "host read", "host write", "host list", "host copy",
		"host access list", "host access request", "host access allow", "host access revoke", "key", "image", "verify", "setup", "completion",
		"man", "version",
	} {
		if !found[want] && !slices.Contains(plannedCommands, want) {
			t.Errorf("unknown command %q", want)
		}
	}
}

// plannedCommands are planned commands.
var plannedCommands = []string{}

// TestOrder checks that each command has a place in the help.
func TestOrder(t *testing.T) {
	app := eachCommand(func(string, *cli.Command) {})
	for _, c := range app.Commands {
		if !c.Hidden && !slices.Contains(commandOrder(), c.Name) {
			t.Errorf("%s has no place among the commands", c.Name)
		}
	}
	if app.Commands[0].Name != "run" {
		t.Errorf("%s comes first", app.Commands[0].Name)
	}
}

// TestExamples parses every example in the help.
func TestExamples(t *testing.T) {
	example := regexp.MustCompile(`(?m)(?:^  |Example: |\| |<\()(sandboxmcp [^|)\n]*)`)
	tried := 0
	app := eachCommand(func(string, *cli.Command) {})
	eachCommand(func(path string, c *cli.Command) {
		for _, m := range example.FindAllStringSubmatch(c.Description, -1) {
			line, _, _ := strings.Cut(m[1], " > ")
			words := strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(line))
			if _, err := cmdline.Parse(app, words); err != nil {
				t.Errorf("%s: its example %q: %v", path, line, err)
			}
			tried++
		}
	})
	if tried < 50 {
		t.Errorf("only %d examples were found", tried)
	}
}

// TestHelpForms asks for help in all common forms, of each command.
func TestHelpForms(t *testing.T) {
	eachCommand(func(path string, c *cli.Command) {
		words := strings.Fields(path)
		forms := [][]string{append(slices.Clone(words), "--help"), append(slices.Clone(words), "-h"), append([]string{"help"}, words...)}
		for _, form := range forms {
			var out, errs strings.Builder
			if code := Main(append([]string{"sandboxmcp"}, form...), strings.NewReader(""), &out, &errs); code != 0 || errs.Len() > 0 ||
				!strings.Contains(out.String(), c.UsageText[:strings.IndexAny(c.UsageText+"\n", "\n")]) {
				t.Errorf("%v: exit %d, %q, %q", form, code, out.String(), errs.String())
			}
		}
	})
}
