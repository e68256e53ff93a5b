package ahead

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

func TestPlain(t *testing.T) {
	tests := []struct {
		line string
		want bool
	}{
		{"run a.py", true},
		{"run a.py --ram 64 --env A=1 --db x.db", true},
		{"run - --language python", true},
		{"run a.py -- --backend docker", true}, // the script's own
		{"run", false},
		{"", false},
		{"serve", false},
		{"version run", false},
		{"--config x.yaml run a.py", false},
		{"run a.py --config x.yaml", false},
		{"run a.py --config=x.yaml", false},
		{"run a.py -config x.yaml", false},
		{"run --backend docker a.py", false},
		{"run a.py --backend=podman", false},
		{"run a.py --gpus all", false},
		{"run a.py --profile landlock", false},
		{"run a.py --require cgroup", false},
		{"run --help", false},
		{"run a.py -h", false},
	}
	for _, tt := range tests {
		if got := plain(append([]string{"sandboxmcp"}, strings.Fields(tt.line)...)); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.line, got, tt.want)
		}
	}
}

// environ is that of a user with this configuration.
func environ(t *testing.T, config string) (all []string, state string) {
	t.Helper()
	dir := t.TempDir()
	if config != "" {
		if err := os.MkdirAll(filepath.Join(dir, "config/sandboxmcp"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config/sandboxmcp/config.yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir + "/config", "XDG_STATE_HOME=" + dir + "/state"}, filepath.Join(dir, "state/sandboxmcp")
}

var line = []string{"sandboxmcp", "run", "a.py"}

// Only whoever wants just what was begun gets it, and only one.
func TestTake(t *testing.T) {
	env, state := environ(t, "")
	b := begin(line, env)
	t.Cleanup(b.close)
	want := process.Config{StateDir: state}
	for _, other := range []process.Config{{}, {StateDir: state, Ahead: 4}, {StateDir: state, Delegate: true}} {
		if got := b.take(other); got != nil {
			t.Errorf("%+v: got what was begun for %+v", other, want)
			got.Close()
		}
	}
	got := b.take(want)
	if got == nil {
		t.Fatalf("%+v: got nothing", want)
	}
	defer got.Close()
	if b.take(want) != nil {
		t.Error("it was given away twice")
	}
	b.close() // which is no longer its business
	if probe, err := got.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers}); err != nil || !probe.Usable {
		hosttest.Missing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	box, err := got.Start(t.Context(), backends.Spec{ID: "ahead", Language: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	res, err := box.Exec(t.Context(), backends.Command{Args: []string{"/bin/sh", "-c", "exit 7"}}, backends.Streams{})
	if err != nil || res.ExitCode != 7 {
		t.Errorf("got %d, %v, want 7", res.ExitCode, err)
	}
}

// What nobody takes leaves no process.
func TestClose(t *testing.T) {
	before := children(t)
	env, _ := environ(t, "")
	b := begin(line, env)
	<-b.made
	if b.backend == nil {
		t.Fatal("nothing was begun")
	}
	b.close()
	b.close()
	if now := children(t); now != before {
		t.Errorf("children: got %q, want %q", now, before)
	}
}

// Where the configuration wants another backend, or makes no sense, nothing begins.
func TestNothingToBegin(t *testing.T) {
	for name, config := range map[string]string{"docker": "backend: docker\n", "wrong": "backend: 7\nno such: thing\n"} {
		env, state := environ(t, config)
		b := begin(line, env)
		if got := b.take(process.Config{StateDir: state}); got != nil {
			t.Errorf("%s: a sandbox was begun", name)
			got.Close()
		}
		b.close()
	}
}

// children are the processes that we started.
func children(t *testing.T) string {
	t.Helper()
	all, _ := filepath.Glob("/proc/self/task/*/children")
	var found []string
	for _, name := range all {
		text, _ := os.ReadFile(name) // a thread may have ended
		found = append(found, strings.Fields(string(text))...)
	}
	return strings.Join(found, " ")
}
