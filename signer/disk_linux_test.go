package signer

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

// TestFullDisk: a full disk is an error, and leaves complete files only.
func TestFullDisk(t *testing.T) {
	const inside = "SIGNER_TEST_MAY_MOUNT"
	if os.Getenv(inside) == "" {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		c.Env = append(os.Environ(), inside+"=1")
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := c.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			hosttest.SkipMissing(t, "user namespace", err.Error())
		}
		if err != nil || !strings.Contains(string(out), "--- PASS: TestFullDisk/") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	content := strings.Repeat("x", 3<<20)
	for name, full := range map[string]string{"straight": "dir", "held": "dir", "temporary directory": "temp"} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir, temp := filepath.Join(top, "dir"), filepath.Join(top, "temp")
			must(t, os.Mkdir(dir, 0o755))
			must(t, os.Mkdir(temp, 0o755))
			t.Setenv("TMPDIR", temp)
			small := filepath.Join(top, full)
			must(t, syscall.Mount("none", small, "tmpfs", 0, "size=1m"))
			defer syscall.Unmount(small, syscall.MNT_DETACH)
			must(t, os.WriteFile(filepath.Join(dir, "big"), []byte("old"), 0o600))
			must(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte("old"), 0o600))

			o := Options{Dir: directoryAt(t, dir)}
			if name != "straight" {
				o.ContainsSecret = containsSecret
			}
			m, err := Collect(t.Context(), sourceOf(file("a", "1"), file("big", content), file("z", "2")), o)
			if !errors.Is(err, syscall.ENOSPC) || len(m.Artifacts) != 1 {
				t.Errorf("got %d artifacts, %v", len(m.Artifacts), err)
			}
			if err != nil && !strings.Contains(err.Error(), `save artifact "big"`) {
				t.Errorf("the error does not name the artifact: %v", err)
			}
			if full == "temp" && err != nil && !strings.Contains(err.Error(), temp) {
				t.Errorf("the error does not name the full directory: %v", err)
			}
			wantTree(t, dir, map[string]string{"a": "1", "big": "old"})
			wantTree(t, temp, map[string]string{})
		})
	}
}
