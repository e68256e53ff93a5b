package enginecheck_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/container/enginetest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// scene holds everything in which killed servers may leave things: an engine and a state directory.
type scene struct {
	kind, url string
	program   string
	dir       string // contains state and runtime directories, and the configuration
	before    []string
}

// newScene returns a scene whose servers use an engine.
func newScene(t testing.TB, kind string) *scene {
	t.Helper()
	if !hasEngine(t, kind) {
		t.SkipNow()
	}
	url := engineURLs()[kind](t)
	dir, err := os.MkdirTemp("", "scene")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &scene{kind: kind, url: url, program: testProgram(t), dir: dir}
	var text strings.Builder
	fmt.Fprintf(&text, "backend: %s\nimages:\n", kind)
	for language, image := range testImages(t, url) {
		fmt.Fprintf(&text, "  %s: %s\n", language, image)
	}
	fmt.Fprintf(&text, "containers:\n  %s: %s\n  pull: never\n", kind, url)
	if err := os.WriteFile(s.config(), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(dir+"/run", 0o700)
	s.before = s.listLeftovers(t, true)
	return s
}

func (s *scene) config() string { return filepath.Join(s.dir, "sandboxmcp.yaml") }

// environ returns the environment of a server.
func (s *scene) environ() []string {
	return append(os.Environ(), commandVariable+"=1", "XDG_STATE_HOME="+s.dir, "XDG_RUNTIME_DIR="+s.dir+"/run",
		"XDG_CONFIG_HOME="+s.dir+"/none", "TMPDIR="+s.dir)
}

// listLeftovers lists everything that runs leave without cleanup: containers, volumes and mounts of the engine, and network
// namespaces. With files, it adds the things that only the next server removes: containers that never started, the
// directories of containers' sockets, and temporary files. The volume with our binary stays on purpose.
func (s *scene) listLeftovers(t testing.TB, files bool) []string {
	t.Helper()
	all := enginetest.ListAll(t, s.url)
	named, _ := filepath.Glob("/run/netns/*")
	named = slices.DeleteFunc(named, func(path string) bool { // of egress/egresstest, whose tests run in parallel
		return strings.HasPrefix(filepath.Base(path), "sandboxmcp-")
	})
	all = append(all, named...)
	if files {
		filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && (filepath.Base(filepath.Dir(path)) == "c" || strings.HasPrefix(filepath.Base(path), "sandboxmcp-")) {
				all = append(all, path)
			}
			return nil
		})
	}
	// An engine mounts its own directory on itself: Docker after a restart, Podman with its first container.
	return slices.DeleteFunc(all, func(thing string) bool {
		if strings.HasPrefix(thing, "container ") && strings.HasSuffix(thing, " created}") {
			return !files
		}
		return strings.HasPrefix(thing, "mount ") && (strings.HasSuffix(thing, "/data") || strings.HasSuffix(thing, "/root/overlay"))
	})
}

// waitUntilClean waits until only the earlier things are left, and no process with marker in its command line. With files, it
// runs a command before each check, whose start removes leftovers: an engine may complete a creation for a killed
// server after the cleanup of the next one.
func (s *scene) waitUntilClean(t testing.TB, marker string, files bool) {
	t.Helper()
	var left []string
	defer func() {
		if t.Failed() {
			t.Logf("left behind:\n%s", strings.Join(left, "\n"))
		}
	}()
	hosttest.Until(t, "nothing is left behind", func() bool {
		left = commandLines(marker)
		for _, thing := range s.listLeftovers(t, files) {
			if !slices.Contains(s.before, thing) {
				left = append(left, thing)
			}
		}
		if len(left) > 0 && files {
			if out, err := s.newCommand(t.Context(), "run", "--language", "shell", "-c", ":").CombinedOutput(); err != nil {
				t.Errorf("the next run: %v: %s", err, out)
				return true
			}
		}
		return len(left) == 0
	})
}

// commandLines returns the command lines of all processes that contain text.
func commandLines(text string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && text != "" && strings.Contains(string(line), text) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}
