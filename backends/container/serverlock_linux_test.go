package container

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestOrphans has a server find containers of other servers.
func TestOrphans(t *testing.T) {
	d, c := newDouble(), config(t)
	alive := New(d, c)
	startSandbox(t, alive, testSpec()).Close()
	living := alive.known.instance

	dead, _ := newServerLock(c.StateDir)
	dead.file.Close() // like a kernel for a killed process
	clean, _ := newServerLock(c.StateDir)
	clean.close()
	elsewhere, _ := newServerLock(t.TempDir())
	dir := func(name string) string {
		// not a number, unlike the directories that a removed container takes along
		path := filepath.Join(living.runs, name, "of-the-test", "conn")
		os.MkdirAll(path, 0o711)
		return path
	}
	dirs := map[string]bool{dir(dead.name): false, dir(living.name): true, filepath.Join(dir(clean.name)): false}
	containers := map[string]bool{}
	add := func(instance, state string, stays bool) {
		id, _ := d.Create(t.Context(), Container{Labels: map[string]string{LabelInstance: instance, LabelState: state}})
		containers[id] = stays
	}
	add(dead.name, dead.stateID, false)
	add(clean.name, clean.stateID, false)
	add(living.name, living.stateID, true)
	add(elsewhere.name, elsewhere.stateID, true)
	add(dead.name, "0123456789abcdef", true)           // as of another machine with the same server names
	add("../instances/"+dead.name, dead.stateID, true) // a path that leads elsewhere
	add("", dead.stateID, true)

	next := New(d, c)
	next.Warm()
	check := func() (wrong []string) {
		for id, stays := range containers {
			if _, p := d.findContainer(id); (p != nil) != stays {
				wrong = append(wrong, id)
			}
		}
		for path, stays := range dirs {
			if _, err := os.Stat(path); (err == nil) != stays {
				wrong = append(wrong, path)
			}
		}
		if _, err := os.Stat(dead.path(dead.name)); err == nil {
			wrong = append(wrong, dead.path(dead.name))
		}
		return wrong
	}
	hosttest.Until(t, "what was of the dead is gone", func() bool { return len(check()) == 0 })
	if !living.alive(living.name) || !next.known.instance.alive(living.name) || next.known.instance.alive(dead.name) {
		t.Error("who lives is not known")
	}
	for id := range containers {
		d.Remove(t.Context(), id)
	}
	elsewhere.close()
	os.RemoveAll(filepath.Join(living.runs, living.name))
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	closeAndCheck(t, alive, d)
}

// TestServerLocks has several servers of one state directory start and end at the same time.
func TestServerLocks(t *testing.T) {
	dir := t.TempDir()
	done := make(chan error)
	for range 8 {
		go func() {
			var err error
			for range 40 {
				var i *serverLock
				if i, err = newServerLock(dir); err != nil {
					break
				}
				i.removeDead()
				if _, err = os.Stat(i.path(i.name)); err != nil {
					break
				}
				i.close()
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	one, err := newServerLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer one.close()
	one.removeDead()
	if left := lockNames(one.locks, lockSuffix); len(left) != 1 {
		t.Errorf("%v are left", left)
	}
	if one.alive(ulid.Make().String()) {
		t.Error("one that never was is alive")
	}
}
