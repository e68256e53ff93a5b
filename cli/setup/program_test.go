package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// fakeClient puts a stand-in for a client's program on PATH: it logs its arguments, one a line, and then runs a script.
// It returns a function that reads and clears the log.
func fakeClient(t *testing.T, name, script string) (runs func() []string) {
	t.Helper()
	hosttest.Program(t, "sh")
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	text := fmt.Sprintf("#!/bin/sh\nfor word in \"$@\"; do printf '%%s|' \"$word\"; done >>%[1]s\necho \"$PWD\" >>%[1]s\n%[2]s\n", log, script)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() []string {
		b, _ := os.ReadFile(log)
		os.Remove(log)
		return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
	}
}

// TestOwnCommands checks that setup runs a client's own commands, with the scope and in the project's directory, backs
// up the file before and reads it again afterwards.
func TestOwnCommands(t *testing.T) {
	words := "/opt/my tools/sandboxmcp"
	for _, tt := range []struct{ client, program, add, removes string }{
		{"claude-code", "claude", "mcp|add|--scope|SCOPE|sandboxmcp|--|" + words + "|serve|--namespace|a\"b<c>|",
			"mcp|remove|--scope|SCOPE|sandboxmcp|"},
		{"gemini", "gemini", "mcp|add|--scope|SCOPE|sandboxmcp|" + words + "|--|serve|--namespace|a\"b<c>|",
			"mcp|remove|--scope|SCOPE|sandboxmcp|"},
	} {
		for _, scope := range []string{"user", "project"} {
			t.Run(tt.client+"/"+scope, func(t *testing.T) {
				c, _ := FindClient(tt.client)
				project := t.TempDir()
				path := filepath.Join(project, "settings.json")
				there, gone := c.Snippet(ours), `{"mcpServers": {}, "mine": 1}`
				os.WriteFile(path, []byte(gone), 0o600)
				os.WriteFile(path+".new", []byte(there), 0o600)
				os.WriteFile(path+".old", []byte(`{"mcpServers": {}}`), 0o600)
				runs := fakeClient(t, tt.program, fmt.Sprintf(`case $2 in add) cp '%[1]s.new' '%[1]s';; remove) cp '%[1]s.old' '%[1]s';; esac`, path))
				at := targetAt(t, c, path)
				where, _ := os.Getwd()
				if scope == "project" {
					at.dir, where = project, project
				}
				do := func(s Server, remove bool) {
					t.Helper()
					var err error
					if at.file, err = openFile(path); err != nil {
						t.Fatal(err)
					}
					change, err := at.plan(s, remove)
					if err == nil {
						err = change.apply(t.Context())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				line := func(command string) string { return strings.ReplaceAll(command, "SCOPE", scope) + where }
				do(ours, false)
				if got, want := runs(), []string{line(tt.add)}; !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
				if got := string(read(t, path+backupSuffix)); got != gone {
					t.Errorf("what is kept is %q", got)
				}
				do(ours, false) // already exists
				if got := runs(); len(got) > 0 {
					t.Errorf("ran %q for nothing", got)
				}
				// Some clients refuse to replace an entry.
				os.WriteFile(path, []byte(strings.ReplaceAll(there, words, "/old")), 0o600)
				do(ours, false)
				if got, want := runs(), []string{line(tt.removes), line(tt.add)}; !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
				do(ours, true)
				if got, want := runs(), []string{line(tt.removes)}; !slices.Equal(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

// TestCodex checks that setup asks Codex for its entry and parses the answer. Codex has no projects.
func TestCodex(t *testing.T) {
	c, _ := FindClient("codex")
	dir := t.TempDir()
	path, state := filepath.Join(dir, "config.toml"), filepath.Join(dir, "state")
	os.WriteFile(path, []byte("# mine\n"), 0o600)
	transport, _ := json.Marshal(map[string]any{"name": ours.Name, "transport": map[string]any{"type": "stdio", "command": ours.Command,
		"args": ours.Args}})
	os.WriteFile(state+".new", transport, 0o600)
	runs := fakeClient(t, "codex", fmt.Sprintf(`case $2 in
add) cp '%[1]s.new' '%[1]s';;
remove) rm '%[1]s';;
get) if [ -e '%[1]s' ]; then cat '%[1]s'; else echo "WARNING: x\nError: No MCP server named '$3' found.\n\nStack backtrace:\n   0: <unknown>" >&2; exit 1; fi;;
esac`, state))
	add(t, c, path, ours)
	if got := runs(); !strings.HasPrefix(got[1], "mcp|add|sandboxmcp|--|/opt/my tools/sandboxmcp|serve|--namespace|a\"b<c>|") {
		t.Errorf("got %q", got)
	}
	if again, err := targetAt(t, c, path).plan(ours, false); err != nil || again.hasEffect() {
		t.Errorf("the second time: %q, %v", again.Runs, err)
	}
	remove(t, c, path)
	at := targetAt(t, c, path)
	at.dir = dir
	if _, err := at.plan(ours, false); err == nil || !strings.Contains(err.Error(), "does not edit") {
		t.Errorf("a project: %v", err)
	}
	os.WriteFile(state, []byte(`{"transport": {"type": "streamable_http", "url": "https://example.com"}}`), 0o600)
	if _, err := targetAt(t, c, path).plan(ours, false); err == nil || !strings.Contains(err.Error(), "behind a URL") {
		t.Errorf("a server elsewhere: %v", err)
	}
	os.WriteFile(state, []byte("no JSON"), 0o600)
	if _, err := targetAt(t, c, path).plan(ours, false); err == nil {
		t.Error("invalid JSON was accepted")
	}
}

// TestCommandsThatFail checks that a client's command that fails or does nothing is an error.
func TestCommandsThatFail(t *testing.T) {
	c, _ := FindClient("claude-code")
	for script, want := range map[string]string{
		"echo working; echo 'no such \033[31mscope' >&2; exit 3": "claude mcp add --scope user sandboxmcp -- '/opt/my tools/sandboxmcp' serve " +
			"--namespace 'a\"b<c>': exit status 3 no such \\x1b[31mscope",
		"exit 0": "claude ended without an error, but did not do it",
	} {
		path := filepath.Join(t.TempDir(), "settings.json")
		os.WriteFile(path, []byte("{}"), 0o600)
		fakeClient(t, "claude", script)
		change, err := targetAt(t, c, path).plan(ours, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := change.apply(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", script, err, want)
		}
	}
}

// TestWithoutOwnCommands checks that, without the client's program, its JSON is edited, and its TOML left to a person.
func TestWithoutOwnCommands(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, want := range map[string]error{"claude-code": nil, "gemini": nil, "codex": errByHand} {
		c, _ := FindClient(name)
		path := filepath.Join(t.TempDir(), "settings")
		os.WriteFile(path, []byte(map[bool]string{true: "{}"}[want == nil]), 0o600)
		change, err := targetAt(t, c, path).plan(ours, false)
		if err == nil {
			err = change.apply(t.Context())
		}
		if now, there, _ := targetAt(t, c, path).entry(ours.Name); !errors.Is(err, want) || there != (want == nil) || there && !now.equals(ours) {
			t.Errorf("%s: %+v, %v", name, now, err)
		}
	}
}
