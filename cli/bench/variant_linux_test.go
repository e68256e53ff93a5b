package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestBroken runs what fails, or does something else than it should: neither counts.
func TestBroken(t *testing.T) {
	hosttest.Program(t, "bash")
	tests := []struct{ name, script, want string }{
		{"fails", "echo working >&2; echo no such thing >&2; exit 3", "bash: no such thing"},
		{"fails silently", "exit 3", "bash: exit status 3"},
		{"prints something else", "echo 2", `it printed "2\n" instead of 1`},
		{"prints nothing", "", `it printed "" instead of 1`},
	}
	for _, tt := range tests {
		w := &Variant{Once: Runs(Clean(), "bash", "-c", tt.script)}
		if taken := w.series(t.Context(), 3); len(taken) > 0 || w.why() != tt.want {
			t.Errorf("%s: %d runs count, and it broke with %q, want %q", tt.name, len(taken), w.why(), tt.want)
		}
	}
	w := &Variant{Once: Runs(Clean(), "bash", "-c", "echo 1")}
	if taken := w.series(t.Context(), 3); len(taken) != 3 || w.why() != "" {
		t.Errorf("%d runs count, want 3; %s", len(taken), w.why())
	}
}

// TestContained runs ours in the containers of an engine: a stand-in for our program sees that it is asked for this engine,
// this image, and nothing that is to be fetched.
func TestContained(t *testing.T) {
	hosttest.Program(t, "bash")
	b := &bench{dir: t.TempDir()}
	if err := os.WriteFile(b.settings(), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Environ = []string{"PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=/run/me", "SANDBOXMCP_BACKEND=none"}
	b.Program = filepath.Join(b.dir, "sandboxmcp")
	script := `#!/bin/bash
grep -q 'pull: never' "$2" && [ "$1 ${*:3}" = "--config run --backend docker main.sh" ] && [ "$SANDBOXMCP_IMAGE_SHELL$SANDBOXMCP_BACKEND" = here ] &&
[ "$XDG_RUNTIME_DIR" = /run/me ] && echo 1
`
	if err := os.WriteFile(b.Program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if env := strings.Join(b.environ("warm"), " "); env != "PATH=/usr/bin:/bin XDG_STATE_HOME="+b.dir+"/warm" {
		t.Errorf("a server of the user's would be asked, or its settings count: %s", env)
	}
	b.contained([]Image{{Engine: "docker", Program: &Program{Language: "shell", Script: "main.sh"}, Name: "here"}})
	if w := b.variants[0]; w.Name != "sandboxmcp run, docker" || len(w.series(t.Context(), 1)) != 1 {
		t.Errorf("%s: %s", w.Name, w.why())
	}
}

// TestOwnProcess: run is told to stay in its own process once it knows how.
func TestOwnProcess(t *testing.T) {
	hosttest.Program(t, "bash")
	for _, tt := range []struct{ help, want string }{{"--json", "sandboxmcp run"}, {"--here   run it in this process", "sandboxmcp run --here"}} {
		b := &bench{dir: t.TempDir()}
		b.Program = filepath.Join(b.dir, "sandboxmcp")
		if err := os.WriteFile(b.Program, []byte("#!/bin/bash\necho '"+tt.help+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if flags, typed := b.ownProcess(t.Context()); typed != tt.want || len(flags) != strings.Count(tt.want, "--") {
			t.Errorf("%s: got %q, %q, want %q", tt.help, flags, typed, tt.want)
		}
	}
}
