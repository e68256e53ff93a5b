package setup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestPipe checks that a FIFO in a file's place is refused without waiting for a writer.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFile(path); err == nil {
		t.Error("it was taken for a file")
	}
}

// TestLastCheck checks that a concurrent write by the client is not lost.
func TestLastCheck(t *testing.T) {
	c, _ := FindClient("zed")
	dir := t.TempDir()
	path := filepath.Join(dir, "settings.json")
	os.WriteFile(path, []byte("{}\n"), 0o600)
	change, err := targetAt(t, c, path).plan(ours, false)
	if err != nil {
		t.Fatal(err)
	}
	theirs := []byte("{\"theme\": \"dark\"}\n")
	os.WriteFile(path, theirs, 0o600) // after apply has checked: write checks again
	if err := change.write(change.path, change.after); err == nil || !bytes.Equal(read(t, path), theirs) {
		t.Errorf("%v, and there is %s", err, read(t, path))
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("something is left: %v", left)
	}
}

// TestFullDisk checks that a file that can't be replaced stays intact.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	runtime.LockOSThread() // the thread and its mounts end with the test
	err := syscall.Unshare(syscall.CLONE_NEWNS)
	if err == nil {
		err = syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	}
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k")
	}
	if err != nil {
		hosttest.SkipMissing(t, "mount", "a small disk: "+err.Error())
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	c, _ := FindClient("zed")
	path := filepath.Join(dir, "settings.json")
	before := []byte("{\n  \"x\": \"" + string(bytes.Repeat([]byte("a"), 40<<10)) + "\"\n}\n")
	os.WriteFile(path, before, 0o600)
	change, err := targetAt(t, c, path).plan(ours, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := change.apply(t.Context()); !errors.Is(err, syscall.ENOSPC) || !bytes.Equal(read(t, path), before) {
		t.Errorf("got %v, and %d bytes", err, len(read(t, path)))
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("something is left: %v", left)
	}
}
