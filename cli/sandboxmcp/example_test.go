package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestAgents runs the agent's loop of the examples in both languages: they print the same, except for ids and times. It
// strips the types of the TypeScript first, so that any Node runs it.
func TestAgents(t *testing.T) {
	requireFeatures(t, "sandbox", "python", "node")
	dir := t.TempDir()
	env := &testscript.Env{WorkDir: dir, Vars: os.Environ()}
	if err := setup(env); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../examples/agent.ts")
	if err != nil {
		t.Fatal(err)
	}
	js := api.Transform(string(source), api.TransformOptions{Loader: api.LoaderTS, Format: api.FormatESModule})
	if len(js.Errors) > 0 {
		t.Fatal(js.Errors)
	}
	agent := filepath.Join(dir, "agent.mjs")
	if err := os.WriteFile(agent, js.Code, 0o644); err != nil {
		t.Fatal(err)
	}
	var outputs []string
	for _, line := range [][]string{{"python3", "../examples/agent.py"}, {"node", agent}} {
		cmd := exec.Command(line[0], line[1:]...)
		cmd.Env, cmd.Stderr = env.Vars, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", line, err, out)
		}
		var logged []string
		for l := range strings.Lines(string(out)) {
			if !strings.HasPrefix(l, "request_id: ") {
				l, _, _ = strings.Cut(strings.TrimSpace(l), ", after ")
				l, _, _ = strings.Cut(l, " was refused (")
				logged = append(logged, l)
			}
		}
		outputs = append(outputs, strings.Join(logged, "\n"))
	}
	if outputs[0] != outputs[1] {
		t.Errorf("Python: %s\nTypeScript: %s", outputs[0], outputs[1])
	}
	for _, want := range []string{"23 tools", "value: 45", "No such file or directory", "egress to evil.example"} {
		if !strings.Contains(outputs[1], want) {
			t.Errorf("got %s, want %q", outputs[1], want)
		}
	}
}
