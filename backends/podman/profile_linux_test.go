package podman

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestProfile checks that each profile has one file, and that a damaged file is repaired.
func TestProfile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var names [8]string
	var all sync.WaitGroup
	for i := range names {
		all.Go(func() {
			var err error
			if names[i], err = New(Config{Dir: dir}).(*Engine).profileFile("{}"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	check := func() {
		t.Helper()
		text, err := os.ReadFile(names[0])
		if info, _ := os.Stat(names[0]); err != nil || string(text) != "{}" || info.Mode().Perm() != 0o644 {
			t.Errorf("got %q, %v", text, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("in the directory: %v, %v", left, err)
		}
	}
	check()
	if err := os.WriteFile(names[0], []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	e := New(Config{Dir: dir}).(*Engine)
	if name, err := e.profileFile("{}"); err != nil || name != names[7] {
		t.Errorf("got %s, %v, want %s", name, err, names[7])
	}
	check()
	if name, err := e.profileFile("[]"); err != nil || name == names[0] {
		t.Errorf("another profile: %s, %v", name, err)
	}
}

// TestProfileNowhere checks that no file is written where others could have put one under its name.
func TestProfileNowhere(t *testing.T) {
	if name, err := New(Config{}).(*Engine).profileFile("{}"); err == nil {
		t.Errorf("got %s", name)
	}
}
