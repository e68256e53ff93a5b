package statefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// traced is the variable with the directory for a traced test.
const traced = "STATEFILE_TEST_DIR"

// TestIsOnTheDisk traces the system calls that make files: a file's data are on the disk before it gets its name,
// and its directory afterwards.
func TestIsOnTheDisk(t *testing.T) {
	if dir := os.Getenv(traced); dir != "" {
		if err := Replace(filepath.Join(dir, "a", "replaced"), "test", []byte("x"), 0o600); err != nil {
			t.Error(err)
		}
		if err := CreateFile(filepath.Join(dir, "b", "created"), "test", []byte("x")); err != nil {
			t.Error(err)
		}
		return
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	calls := hosttest.TraceCalls(t, "fsync,fdatasync,rename,renameat,renameat2,link,linkat", traced+"="+dir)
	for name, want := range map[string][]string{
		"replaced": {"fsync a/.new-test-", "rename a/replaced", "fsync a>"},
		"created":  {"fsync .>", "fsync b/.new-test-", "rename b/.new-test-", "link b/created", "fsync b>"},
	} {
		next := 0
		for _, call := range calls {
			what, path, _ := strings.Cut(strings.Replace(want[next], " .>", " /../"+filepath.Base(dir)+">", 1), " ")
			if strings.HasPrefix(call, what) && strings.Contains(call, filepath.Join(dir, path)) {
				if next++; next == len(want) {
					break
				}
			}
		}
		if next < len(want) {
			t.Errorf("%s: no %q in its place among\n%s", name, want[next], strings.Join(calls, "\n"))
		}
	}
}
