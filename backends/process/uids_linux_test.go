package process

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestOwnUser starts sandboxes in all ways there are, beside each other: what the kernel counts by user is nobody else's.
func TestOwnUser(t *testing.T) {
	if !isRoot() {
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
	seen := map[string]string{}
	one, other := newBackend(t, Config{Pool: Pool{Max: 2}, Ahead: 1}), newBackend(t, Config{})
	for _, b := range []*Backend{one, other} {
		for _, w := range ways {
			if _, err := b.runtime(t.Context(), w.spec.Language); err != nil {
				continue
			}
			if b == one && w.spec.Program != nil {
				stock(t, b, w.spec)
			}
			started, err := b.Start(t.Context(), w.spec)
			if _, old := errors.AsType[*backends.Refusal](err); old {
				t.Logf("%s: %v", w.name, err) // an older Landlock, or a file system without mounts of other owners
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
			defer started.Close()
			s := started.(*sandbox)
			if got := s.zygote() != nil; got != (b == one && w.spec.Program != nil) {
				t.Errorf("%s: forked by a zygote: %v", w.name, got)
			}
			status, err := os.ReadFile("/proc/" + strconv.Itoa(s.pid) + "/status")
			if err != nil {
				t.Fatal(err)
			}
			users := append(strings.Fields(statusField(status, "Uid")), strings.Fields(statusField(status, "Gid"))...)
			if want := strconv.Itoa(s.uid); s.uid < firstUID || slices.ContainsFunc(users, func(u string) bool { return u != want }) {
				t.Errorf("%s: runs as %v, want only %s", w.name, users, want)
			}
			if before := seen[users[0]]; before != "" {
				t.Errorf("%s: has the user of %s", w.name, before)
			}
			seen[users[0]] = w.name
		}
	}
	if a, b := one.uids.first, other.uids.first; a == b || a < firstUID || a+blockUIDs > 0x7fffffff {
		t.Errorf("two servers have blocks at %#x and %#x", a, b)
	}
}

// TestUserComesAgain sees that a user is another sandbox's only when no process of the first is left, and then as late as can be.
func TestUserComesAgain(t *testing.T) {
	var u uids
	defer u.close()
	first, err := u.take()
	if err != nil {
		t.Fatal(err)
	}
	for range blockUIDs - 1 {
		if uid, err := u.take(); err != nil || uid == first {
			t.Fatal(uid, err)
		}
	}
	if uid, err := u.take(); err == nil {
		t.Fatalf("%d is assigned twice", uid)
	}
	u.giveBack(first)
	if uid, err := u.take(); err != nil || uid != first {
		t.Errorf("got %d %v, want the only one that is free, %d", uid, err, first)
	}
}
