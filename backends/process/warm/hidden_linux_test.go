package warm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/process"
)

// TestHiddenInPrefix hides a file in the directory of an interpreter, which all of its sandboxes show, however they
// are made.
func TestHiddenInPrefix(t *testing.T) {
	home, err := os.UserHomeDir() // each sandbox has its own /tmp
	if err != nil {
		t.Skip(err)
	}
	prefix, err := os.MkdirTemp(home, "TestHidden")
	if err != nil || strings.HasPrefix(prefix, "/tmp/") {
		t.Skip("no directory outside of /tmp: ", err)
	}
	t.Cleanup(func() { os.RemoveAll(prefix) })
	state := filepath.Join(prefix, "state")
	for _, err := range []error{os.Chmod(prefix, 0o755), os.Mkdir(state, 0o755), os.WriteFile(state+"/key", []byte("canary"), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const code = "import glob\nprint(glob.glob('%s/**', recursive=True))"
	for name, c := range map[string]struct {
		config Config
		stock  bool
	}{
		"launcher": {Config{}, false},
		"template": {Config{Ahead: 1}, false},
		"zygote":   {Config{Max: 2}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, process.Config{Hidden: []string{state}, Runtimes: interpreters(t, prefix)}, c.config)
			spec := announced("python", readyPython)
			if c.stock {
				makeReady(t, b, spec)
			}
			got := runProgram(t, b, spec, map[string]string{"main.py": fmt.Sprintf(code, prefix)}, "")
			if want := fmt.Sprintf("['%[1]s/', '%[1]s/state']\n", prefix); got.out != want || got.Warm != c.stock {
				t.Errorf("got %q %s, want %q, from what stood ready: %v", got.out, got.err, want, c.stock)
			}
		})
	}
}
