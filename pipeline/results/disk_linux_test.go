package results

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// A full disk is an error, and leaves nothing half; when there is room again, it goes on.
func TestFullDisk(t *testing.T) {
	const inside = "RESULTS_TEST_MAY_MOUNT"
	if os.Getenv(inside) == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		c.Env = append(os.Environ(), inside+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := c.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			hosttest.SkipMissing(t, "user namespaces", err.Error()) // to mount a small file system
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: TestFullDisk") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	must(t, syscall.Mount("none", dir, "tmpfs", 0, "size=1m"))
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	s := openStore(t, Config{Dir: filepath.Join(dir, "results")})
	good, bad := large(newID()), large(newID())
	must(t, s.Save(t.Context(), good))
	save(t, s, bad.ID, "a", "a")
	bad.Stdout = strings.Repeat("x", 2<<20)
	err := s.Save(t.Context(), bad)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "store run "+bad.ID+": write its stdout: no space left") {
		t.Errorf("got %v", err)
	}
	if list := s.List(Filter{}); len(list) != 1 || list[0].ID != good.ID {
		t.Errorf("the store has %v", list)
	}
	if entries, _ := os.ReadDir(s.c.Dir); len(entries) != 1 {
		t.Errorf("left are %v", entries)
	}
	small := small(newID())
	must(t, s.Save(t.Context(), small))
	bad.Stdout = strings.Repeat("x", 1<<18)
	must(t, s.Save(t.Context(), bad))
	if got, err := s.Get(bad.ID); err != nil || len(got.Stdout) != 1<<18 {
		t.Errorf("%d bytes, %v", len(got.Stdout), err)
	}
}
