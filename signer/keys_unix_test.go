//go:build unix

package signer

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func TestKeyThatOthersMayRead(t *testing.T) {
	keys, key := newKeys(t)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o644, 0o660, 0o666, 0o777} {
		if err := os.Chmod(keys.privateKeyPath(), mode); err != nil {
			t.Fatal(err)
		}
		_, cached := keys.Current(t.Context())
		_, anew := openKeys(t, keys.Dir()).Current(t.Context())
		_, _, rotated := keys.Rotate(t.Context())
		for _, err := range []error{cached, anew, rotated} {
			if err == nil || !strings.Contains(err.Error(), "chmod 600") {
				t.Errorf("%v: %v", mode, err)
			}
		}
	}
	for _, mode := range []os.FileMode{0o400, 0o600} {
		if err := os.Chmod(keys.privateKeyPath(), mode); err != nil {
			t.Fatal(err)
		}
		if got := current(t, keys); got.ID() != key.ID() {
			t.Errorf("%v: got another key", mode)
		}
	}
	if err := os.Chmod(keys.Dir(), 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeys(keys.Dir(), nil); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others may write to: %v", err)
	}
}

// TestKeyOfAnother: the owner of the directory or the file can replace the key.
func TestKeyOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "nobody else can give files away")
	}
	for _, what := range []string{"directory", "file"} {
		keys, _ := newKeys(t)
		path := map[string]string{"directory": keys.Dir(), "file": keys.privateKeyPath()}[what]
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		again, err := OpenKeys(keys.Dir(), nil)
		if err == nil {
			_, err = again.Current(t.Context())
		}
		if err == nil {
			t.Errorf("a %s of another user's is taken", what)
		}
	}
}

// TestKeyThatIsNoFile: anything but a regular file in place of the key is an error, without waiting.
func TestKeyThatIsNoFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"fifo":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":      func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		keys := openKeys(t, t.TempDir())
		if err := make(keys.privateKeyPath()); err != nil {
			t.Fatal(err)
		}
		if _, err := keys.Current(t.Context()); err == nil || !strings.Contains(err.Error(), "not a file") &&
			!strings.Contains(err.Error(), "is a link") {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenKeys(path, nil); err == nil || !strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("got %v", err)
	}
}

func process(t *testing.T, how, dir string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], dir)
	c.Env = append(os.Environ(), asProcess+"="+how)
	out := &strings.Builder{}
	c.Stdout, c.Stderr = out, out
	return c, out
}

// TestProcessesAgreeOnTheFirstKey: of processes that start at once, one makes the key, and all sign with it.
func TestProcessesAgreeOnTheFirstKey(t *testing.T) {
	for range hosttest.Rounds(3, 8) {
		dir := filepath.Join(t.TempDir(), "keys")
		var all []*exec.Cmd
		var outs []*strings.Builder
		for range 6 {
			c, out := process(t, "current", dir)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			all, outs = append(all, c), append(outs, out)
		}
		for i, c := range all {
			if err := c.Wait(); err != nil {
				t.Errorf("%v: %s", err, outs[i])
			}
			if outs[i].String() != outs[0].String() {
				t.Errorf("got %s and %s", outs[0], outs[i])
			}
		}
		if list, err := filepath.Glob(openKeys(t, dir).publicKeyPath("*")); err != nil || len(list) != 1 {
			t.Errorf("got %v, %v", list, err)
		}
	}
}

// TestProcessesRotateAtOnce: however many processes rotate at once, each key except the last has a statement about
// the next.
func TestProcessesRotateAtOnce(t *testing.T) {
	keys, first := newKeys(t)
	var all []*exec.Cmd
	for range 6 {
		c, _ := process(t, "rotate", keys.Dir())
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	wantChain(t, keys, first, 7)
}

// wantChain follows the statements from a key to the current one. count is the expected number of keys on that
// path, 0 any.
func wantChain(t *testing.T, keys *Keys, first *Key, count int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(keys.Dir(), "*.next"))
	if err != nil {
		t.Fatal(err)
	}
	var statements [][]byte
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, text)
	}
	trust := NewTrust(first.PublicKey)
	if err := trust.ApplyRotations(statements...); err != nil {
		t.Error(err)
	}
	now := current(t, keys)
	if _, ok := trust.KeyByID(now.ID()); !ok {
		t.Errorf("the key that signs can't be reached from the first one")
	}
	if count > 0 && len(trust.Keys()) != count {
		t.Errorf("got %d keys, want %d", len(trust.Keys()), count)
	}
}

// TestKilledWhileMakingKeys: a kill at any moment leaves no key or a complete one, and never one without a path of
// statements.
func TestKilledWhileMakingKeys(t *testing.T) {
	rounds, killed, made := hosttest.Rounds(20, 150), 0, 0
	keys, first := newKeys(t)
	whole, _ := process(t, "current", filepath.Join(t.TempDir(), "keys"))
	began := time.Now()
	if err := whole.Run(); err != nil {
		t.Fatal(err)
	}
	lasts := time.Since(began)
	for i := range rounds {
		dir, how := keys.Dir(), "rotate"
		if i%2 == 0 {
			dir, how = filepath.Join(t.TempDir(), "keys"), "current"
		}
		c, _ := process(t, how, dir)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lasts/2 + rand.N(lasts)) // mostly near its end, when it does the work
		c.Process.Kill()
		if c.Wait() != nil {
			killed++
		}
		if how == "rotate" {
			wantChain(t, keys, first, 0)
			continue
		}
		fresh := openKeys(t, dir)
		if _, err := os.Stat(fresh.privateKeyPath()); err == nil {
			made++
		}
		key := current(t, fresh)
		if all, err := filepath.Glob(fresh.publicKeyPath("*")); err != nil || len(all) != 1 || all[0] != fresh.publicKeyPath(key.ID()) {
			t.Errorf("got %v, %v", all, err)
		}
	}
	t.Logf("%d of %d were killed, %d had made a key by then", killed, rounds, made)
	left, _ := filepath.Glob(filepath.Join(keys.Dir(), ".new-"+tempKind+"-*"))
	for _, name := range left {
		old := time.Now().Add(-time.Hour)
		os.Chtimes(name, old, old)
	}
	if _, _, err := keys.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s, of a process that was killed, is still there", name)
		}
	}
}
