package docker

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestTidy removes what a process left that was killed while it asked, and nothing else.
func TestTidy(t *testing.T) {
	folder := t.TempDir()
	for name, age := range map[string]time.Duration{here + "old": time.Hour, here + "new": 0, "kept": time.Hour} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
	tidy(folder)
	for name, want := range map[string]bool{here + "old": false, here + "new": true, "kept": true} {
		if _, err := os.Lstat(filepath.Join(folder, name)); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", name, err == nil, want)
		}
	}
}
