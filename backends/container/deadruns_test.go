package container

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRemoveLeft: run directories of dead processes are removed, whatever their XDG_RUNTIME_DIR was; those of
// living processes and locks stay.
func TestRemoveLeft(t *testing.T) {
	state, runtimeDir := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	living, err := newServerLock(state)
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := RunDirs(state)
	if err != nil || len(dirs) != 2 || filepath.Dir(filepath.Dir(dirs[0])) != filepath.Join(runtimeDir, "sandboxmcp") {
		t.Fatalf("%q, %v", dirs, err)
	}
	const dead = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	lock := filepath.Join(state, "instances", dead+lockSuffix)
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		for _, name := range []string{dead, living.name} {
			if err := os.MkdirAll(filepath.Join(dir, name, "1"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	RemoveDeadRuns(state)
	for _, dir := range dirs {
		if left := lockNames(dir, ""); len(left) != 1 || left[0] != living.name {
			t.Errorf("%s has %q", dir, left)
		}
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("the lock by which its containers are found: %v", err)
	}
	os.RemoveAll(filepath.Join(dirs[1], living.name))
	living.close()
	RemoveDeadRuns(state)
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is empty and stays", dir)
		}
	}
}
