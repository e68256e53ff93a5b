package peers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/bench"
)

// engineScript stands in for a container engine, which not every machine has: it writes down what it is asked, has one image,
// and runs what is to run in a container on the host.
const engineScript = `#!/bin/bash
echo "$@" >> "$ASKED"
case "$1" in
version) [ -z "$DOWN" ] || { echo "warning: old" >&2; echo "Cannot connect to the daemon" >&2; exit 1; }; echo 9.9.9 ;;
info) echo "runc runsc " ;;
image) [ "$3" = here ] || { echo "no such image" >&2; exit 1; } ;;
run) [[ " $* " != *" --detach "* ]] || { echo id-of-running; exit; }; while [ "$1" != here ]; do shift; done; shift; "$@" ;;
exec) shift 2; "$@" ;;
ps) echo "one"; echo "two" ;;
rm) ;;
*) exit 1 ;;
esac
`

func fakeEngine(t *testing.T, name string) (environ []string, asked func() string) {
	t.Helper()
	hosttest.Program(t, "bash")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(engineScript), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	log := filepath.Join(dir, "asked")
	return []string{"ASKED=" + log, "PATH=/usr/bin:/bin"}, func() string {
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func newFound(environ []string, programs ...*bench.Program) *found {
	return &found{Config: Config{Environ: environ}, programs: programs, Peers: bench.Peers{Versions: map[string]string{}}}
}

func TestContainers(t *testing.T) {
	environ, asked := fakeEngine(t, "docker")
	python, shell := &bench.Program{Language: "python"}, &bench.Program{Language: "shell", Typed: []string{"bash", "-c", "echo 1"}}
	f := newFound(environ, python, shell)
	f.Config.Image = func(language string) string {
		return map[string]string{"shell": "here", "python": "elsewhere"}[language]
	}
	f.containers(t.Context(), "docker")
	var names []string
	for _, w := range f.Variants {
		names = append(names, w.Name)
		if answer, err := w.Once(t.Context()); err != nil || w.Broken != nil || answer.Out != "1\n" {
			t.Errorf("%s %s: %q, %v, %v", w.Language, w.Name, answer.Out, err, w.Broken)
		}
	}
	if got, want := strings.Join(names, "; "), "docker run; docker run, runsc; docker exec"; got != want {
		t.Errorf("ways: got %s, want %s", got, want)
	}
	if want := (bench.Image{Engine: "docker", Program: shell, Name: "here"}); len(f.Peers.Images) != 1 || f.Peers.Images[0] != want {
		t.Errorf("images: got %v, want %v", f.Peers.Images, want)
	}
	f.close()
	for line := range strings.Lines(asked()) {
		if strings.HasPrefix(line, "run ") && (!strings.Contains(line, " --pull never ") || !strings.Contains(line, " --network none ") || !strings.Contains(line, " --label sandboxmcp.bench=")) {
			t.Errorf("a container may fetch, reach or be forgotten: %s", line)
		}
		if strings.HasPrefix(line, "pull") || strings.Contains(line, "elsewhere") && !strings.HasPrefix(line, "image inspect ") {
			t.Errorf("asked: %s", line)
		}
	}
	if !strings.HasSuffix(asked(), "rm --force one two\n") {
		t.Errorf("its containers were not removed; it was asked:\n%s", asked())
	}
	want := bench.LeftOut{What: "docker for python", Why: "it has no image elsewhere here, and none is fetched"}
	if len(f.LeftOut) != 1 || f.LeftOut[0] != want {
		t.Errorf("left out: got %v, want %v", f.LeftOut, want)
	}
}

func TestContainersLeftOut(t *testing.T) {
	environ, _ := fakeEngine(t, "docker")
	tests := []struct{ engine, more, want string }{
		{"docker", "DOWN=1", "it does not answer: docker: Cannot connect to the daemon"},
		{"podman-that-is-nowhere", "", "not installed"},
	}
	for _, tt := range tests {
		f := newFound(append(environ, tt.more))
		f.containers(t.Context(), tt.engine)
		if want := (bench.LeftOut{What: tt.engine, Why: tt.want}); len(f.LeftOut) != 1 || f.LeftOut[0] != want {
			t.Errorf("%s: left out: got %v, want %v", tt.engine, f.LeftOut, want)
		}
		if len(f.engines) > 0 {
			t.Errorf("%s: it is asked to remove containers", tt.engine)
		}
	}
}
