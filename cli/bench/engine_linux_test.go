package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
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

func newBench(t *testing.T, environ []string, images map[string]string) *bench {
	return &bench{Config: Config{Environ: environ, Images: images, Runs: 5}, dir: t.TempDir(), report: Report{Machine: Machine{Versions: map[string]string{}}}}
}

func TestContainers(t *testing.T) {
	environ, asked := fakeEngine(t, "docker")
	b := newBench(t, environ, map[string]string{"shell": "here", "python": "elsewhere"})
	all := programs()
	b.Program = filepath.Join(t.TempDir(), "sandboxmcp")
	if err := os.WriteFile(b.Program, []byte("#!/bin/bash\ngrep -q '\"backend\":\"docker\".*\"shell\":\"here\"' \"$2\" && [ \"$1 $3\" = '--config run' ] && echo 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.containers(t.Context(), "docker", []*program{&all[0], &all[2]})
	var names []string
	for _, w := range b.ways {
		names = append(names, w.name)
		if _, ok := w.try(t.Context()); !ok {
			t.Errorf("%s %s: %s", w.language, w.name, w.why())
		}
	}
	if got, want := strings.Join(names, "; "), "docker run; docker run, runsc; docker exec; sandboxmcp run, docker"; got != want {
		t.Errorf("ways: got %s, want %s", got, want)
	}
	b.close()
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
	want := LeftOut{"docker for python", "it has no image elsewhere here, and none is fetched"}
	if len(b.report.LeftOut) != 1 || b.report.LeftOut[0] != want {
		t.Errorf("left out: got %v, want %v", b.report.LeftOut, want)
	}
}

func TestContainersLeftOut(t *testing.T) {
	environ, _ := fakeEngine(t, "docker")
	tests := []struct{ engine, more, want string }{
		{"docker", "DOWN=1", "it does not answer: docker: Cannot connect to the daemon"},
		{"podman-that-is-nowhere", "", "not installed"},
	}
	for _, tt := range tests {
		b := newBench(t, append(environ, tt.more), nil)
		b.containers(t.Context(), tt.engine, nil)
		if want := (LeftOut{tt.engine, tt.want}); len(b.report.LeftOut) != 1 || b.report.LeftOut[0] != want {
			t.Errorf("%s: left out: got %v, want %v", tt.engine, b.report.LeftOut, want)
		}
		if len(b.engines) > 0 {
			t.Errorf("%s: it is asked to remove containers", tt.engine)
		}
	}
}

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
		w := &way{once: runs(clean(), "bash", "-c", tt.script)}
		if taken := w.turn(t.Context(), 3); len(taken) > 0 || w.why() != tt.want {
			t.Errorf("%s: %d runs count, and it broke with %q, want %q", tt.name, len(taken), w.why(), tt.want)
		}
	}
	w := &way{once: runs(clean(), "bash", "-c", "echo 1")}
	if taken := w.turn(t.Context(), 3); len(taken) != 3 || w.why() != "" {
		t.Errorf("%d runs count, want 3; %s", len(taken), w.why())
	}
}
