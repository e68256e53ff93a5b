package bench

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process/runtimes"
)

// engineScript stands in for a container engine: it logs its arguments, has one image, and runs the commands of
// containers on the host.
const engineScript = `#!/bin/bash
echo "$@" >> "$ASKED"
case "$1" in
version) [ -z "$DOWN" ] || { echo "warning: old" >&2; echo "Cannot connect to the daemon" >&2; exit 1; }; echo 9.9.9 ;;
image) [ "$3" = here ] || { echo "no such image" >&2; exit 1; } ;;
run) [[ " $* " != *" --detach "* ]] || { echo id-of-running; exit; }; while [ "$1" != here ]; do shift; done; shift; "$@" ;;
exec) shift 2; "$@" ;;
ps) echo "one"; echo "two" ;;
rm) ;;
*) exit 1 ;;
esac
`

// fakeEngine puts a stand-in for Docker on PATH. It returns a measurement that finds it, and a function for its log.
func fakeEngine(t *testing.T, environ ...string) (b *bench, asked func() string) {
	t.Helper()
	hosttest.Program(t, "bash")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(engineScript), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	log := filepath.Join(dir, "asked")
	b = &bench{dir: dir, report: Report{Machine: Machine{Versions: map[string]string{}}, LeftOut: map[string]string{}}}
	b.Environ = append([]string{"ASKED=" + log, "PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=/run/me", "SANDBOXMCP_BACKEND=none"}, environ...)
	b.Image = func(language string) string {
		return map[string]string{"shell": "here", "python": "elsewhere"}[language]
	}
	b.Program = filepath.Join(dir, "sandboxmcp")
	return b, func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// dockerCommands returns the commands that use Docker.
func dockerCommands() []command {
	return slices.DeleteFunc(commands(), func(c command) bool { return !strings.HasPrefix(c.detect, "docker ") })
}

// TestContainers measures the methods that use an engine: none pulls an image, reaches a network or leaves a container.
// Our own method uses the same engine and image, without the user's settings.
func TestContainers(t *testing.T) {
	b, asked := fakeEngine(t)
	script := `#!/bin/bash
[ "$1 ${*:3}" = "--config run --backend docker /main.sh" ] && [ "$SANDBOXMCP_IMAGE_SHELL$SANDBOXMCP_BACKEND" = here ] && [ "$XDG_RUNTIME_DIR" = /run/me ] && echo 1
`
	if err := os.WriteFile(b.Program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	python, shell := program{language: "python"}, program{language: "shell", script: "/main.sh", inside: []string{"bash", "-c", "echo 1"}}
	var names []string
	for _, c := range dockerCommands() {
		if !b.toolWorks(t.Context(), c) {
			t.Fatalf("%s is left out: %v", c.name, b.report.LeftOut)
		}
		if w := b.newMethod(t.Context(), c, python); w != nil {
			t.Errorf("%s has no image for Python", w.name)
		}
		w := b.newMethod(t.Context(), c, shell)
		names = append(names, w.name)
		if printed, err := w.once(t.Context()); err != nil || w.broken != nil || printed != "1\n" {
			t.Errorf("%s: %q, %v, %v", w.name, printed, err, w.broken)
		}
	}
	if got, want := strings.Join(names, "; "), "docker run; docker exec; sandboxmcp run, docker"; got != want {
		t.Errorf("methods: got %s, want %s", got, want)
	}
	for _, end := range b.closers {
		end()
	}
	for line := range strings.Lines(asked()) {
		if strings.HasPrefix(line, "run ") && (!strings.Contains(line, " --pull never ") || !strings.Contains(line, " --network none ") ||
			!strings.Contains(line, " --label sandboxmcp.bench=")) {
			t.Errorf("a container may fetch, reach or be forgotten: %s", line)
		}
		if strings.HasPrefix(line, "pull") || strings.Contains(line, "elsewhere") && !strings.HasPrefix(line, "image inspect ") {
			t.Errorf("asked: %s", line)
		}
	}
	if !strings.HasSuffix(asked(), "rm --force one two\n") {
		t.Errorf("its containers were not removed; it was asked:\n%s", asked())
	}
	want := map[string]string{"docker for python": "it has no image elsewhere, and bench pulls none"}
	if diff := cmp.Diff(want, b.report.LeftOut); diff != "" {
		t.Error(diff)
	}
	if env := strings.Join(b.environ(Warm), " "); strings.Contains(env, "SANDBOXMCP_") || strings.Contains(env, "/run/me") {
		t.Errorf("a server of the user's would be asked, or its settings count: %s", env)
	}
}

// TestLeftOut checks that a tool that is missing or does not answer is left out once, with the reason.
func TestLeftOut(t *testing.T) {
	b, _ := fakeEngine(t, "DOWN=1")
	for _, c := range append(dockerCommands(), command{tool: "nothing", detect: "podman-that-is-nowhere version"}) {
		if b.toolWorks(t.Context(), c) {
			t.Errorf("%s works", c.name)
		}
	}
	want := map[string]string{"docker": "no answer: docker: Cannot connect to the daemon", "nothing": "not installed"}
	if diff := cmp.Diff(want, b.report.LeftOut); diff != "" {
		t.Error(diff)
	}
	if len(b.closers) > 0 {
		t.Error("it is asked to remove containers")
	}
}

// TestWords checks that words replaces the placeholders of the table, and that a path with blanks stays one word.
func TestWords(t *testing.T) {
	b := &bench{dir: "/tmp/a b", Config: Config{Program: "/opt/sand box", Image: func(string) string { return "image:1" }}}
	p := program{language: "shell", file: "main.sh", script: "/tmp/a b/main.sh", inside: []string{"bash", "-c", "echo 1"},
		Runtime: runtimes.Runtime{Path: "/usr/bin/bash"}}
	for line, want := range map[string][]string{
		"INTERPRETER SCRIPT":                    {"/usr/bin/bash", "/tmp/a b/main.sh"},
		"x --ro-bind SCRIPT /workspace/FILE":    {"x", "--ro-bind", "/tmp/a b/main.sh", "/workspace/main.sh"},
		"OURS run SCRIPT":                       {"/opt/sand box", "--config", "/tmp/a b/default.yaml", "run", "/tmp/a b/main.sh"},
		"docker run --label LABEL IMAGE INSIDE": {"docker", "run", "--label", "sandboxmcp.bench=a b", "image:1", "bash", "-c", "echo 1"},
	} {
		if got := b.commandWords(line, p); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// TestBroken runs programs that fail or print something unexpected: neither counts.
func TestBroken(t *testing.T) {
	hosttest.Program(t, "bash")
	bash := func(script string) *method {
		return &method{once: func(ctx context.Context) (string, error) { return runOutput(ctx, cleanEnviron(), "bash", "-c", script) }}
	}
	tests := []struct{ name, script, want string }{
		{"fails", "echo working >&2; echo no such thing >&2; exit 3", "bash: no such thing"},
		{"fails with a hint", "echo sandboxmcp: no such thing >&2; echo sandboxmcp: hint: more >&2; exit 3", "bash: sandboxmcp: no such thing"},
		{"fails silently", "exit 3", "bash: exit status 3"},
		{"prints something else", "echo 2", `it printed "2\n" instead of 1`},
		{"prints nothing", "", `it printed "" instead of 1`},
	}
	for _, tt := range tests {
		w := bash(tt.script)
		if taken := w.runSeries(t.Context(), 3); len(taken) > 0 || w.summarize(taken).Error != tt.want {
			t.Errorf("%s: %d runs count, and it broke with %v, want %q", tt.name, len(taken), w.broken, tt.want)
		}
	}
	w := bash("echo 1")
	if taken := w.runSeries(t.Context(), 3); len(taken) != 3 || w.broken != nil {
		t.Errorf("%d runs count, want 3; %v", len(taken), w.broken)
	}
	if taken := w.runFor(t.Context(), 0, 100*time.Millisecond); w.broken != nil || slices.Max(append(taken, 0)) > 100*time.Millisecond {
		t.Errorf("a run counts that ended later: %v, %v", taken, w.broken)
	}
}
