package warm

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/procfs"
)

// TestOwnUser starts sandboxes of all kinds side by side: each has its own per-user kernel counters.
func TestOwnUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a sandbox a host user of its own")
	}
	dir := t.TempDir()
	cmd := backends.Command{Args: []string{"python", "main.py"}}
	zygote := announced("python", cmd)
	ways := []struct {
		name string
		spec backends.Spec
	}{
		{"template", backends.Spec{Language: "shell"}},
		{"template again", backends.Spec{Language: "shell"}},
		{"launcher", backends.Spec{Language: "shell", Workspace: backends.Mount{Host: dir, Write: true}}},
		{"session", backends.Spec{Language: "shell", Keep: true}},
		{"landlock", backends.Spec{Language: "shell", Profile: "landlock"}},
		{"zygote", zygote},
		{"zygote again", zygote},
	}
	const firstUID = 0x70000000
	seen, blocks := map[string]string{}, map[*Backend]int{}
	one, other := newBackend(t, process.Config{}, Config{Max: 2, Ahead: 1}), newBackend(t, process.Config{}, Config{})
	for _, b := range []*Backend{one, other} {
		for _, w := range ways {
			if b.Runtime(t.Context(), w.spec.Language).Path == "" {
				continue
			}
			if b == one && w.spec.Program != nil {
				makeReady(t, b, w.spec)
			}
			started, err := b.Start(t.Context(), w.spec)
			if _, old := errors.AsType[*backends.Refusal](err); old {
				t.Logf("%s: %v", w.name, err) // an older Landlock, or a file system without ID-mapped mounts
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
			defer started.Close()
			s := started.(interface {
				PID() int
				UID() int
			})
			pooled, _ := started.(*sandbox)
			if got := pooled != nil && pooled.zygote != nil; got != (b == one && w.spec.Program != nil) {
				t.Errorf("%s: forked by a zygote: %v", w.name, got)
			}
			status, err := os.ReadFile("/proc/" + strconv.Itoa(s.PID()) + "/status")
			if err != nil {
				t.Fatal(err)
			}
			users := append(strings.Fields(procfs.StatusField(status, "Uid")), strings.Fields(procfs.StatusField(status, "Gid"))...)
			if want := strconv.Itoa(s.UID()); s.UID() < firstUID || slices.ContainsFunc(users, func(u string) bool { return u != want }) {
				t.Errorf("%s: runs as %v, want only %s", w.name, users, want)
			}
			if before := seen[users[0]]; before != "" {
				t.Errorf("%s: has the user of %s", w.name, before)
			}
			seen[users[0]] = w.name
			blocks[b] = s.UID() >> 16
		}
	}
	if a, b := blocks[one], blocks[other]; a == b || a > 0x7fff || b > 0x7fff {
		t.Errorf("two servers have blocks at %#x and %#x", a, b)
	}
}
