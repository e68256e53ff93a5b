package docker

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRemoveStale checks that only the markers of a process that was killed during its check are removed.
func TestRemoveStale(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{markerPrefix + "old": time.Hour, markerPrefix + "new": 0, "kept": time.Hour} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(dir)
	for name, want := range map[string]bool{markerPrefix + "old": false, markerPrefix + "new": true, "kept": true} {
		if _, err := os.Lstat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}
