package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// backupTest is a home with a state, and a key for its backups.
type backupTest struct {
	*testing.T
	home, key, to string
}

func newBackupTest(t *testing.T) *backupTest {
	t.Helper()
	b := &backupTest{T: t, home: t.TempDir()}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	b.key, b.to = filepath.Join(b.home, "key"), id.Recipient().String()
	if err := os.WriteFile(b.key, []byte(id.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// runCommand runs a command with a home.
func (b *backupTest) runCommand(ctx context.Context, home, stdin string, args ...string) (string, error) {
	cmd := command(ctx, b.T, home, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (b *backupTest) mustRun(home, stdin string, args ...string) string {
	b.Helper()
	out, err := b.runCommand(b.Context(), home, stdin, args...)
	if err != nil {
		b.Fatalf("%q: %v, %s", args, err, out)
	}
	return out
}

// stateDir returns the state directory of a home.
func stateDir(home string) string { return filepath.Join(home, "state/sandboxmcp") }

// TestBackupWhileOthersWrite checks that a backup has all rows that were acknowledged before it started, and no secret
// or token without its row.
func TestBackupWhileOthersWrite(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	b := newBackupTest(t)
	b.mustRun(b.home, "first", "vault", "add", "K", "--stdin")
	var mu sync.Mutex
	var acknowledged []string
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for name, args := range map[string]func(i int) []string{
		"run": func(int) []string {
			return []string{"run", "--json", "-c", "echo x >f", "--language", "shell", "--artifacts", filepath.Join(b.home, "out")}
		},
		"vault": func(i int) []string { return []string{"vault", "add", fmt.Sprintf("K%d", i), "--stdin", "--json"} },
		"token": func(i int) []string {
			return []string{"token", "create", fmt.Sprintf("t%d", i), "--namespace", "default", "--json"}
		},
		"rotate": func(int) []string { return []string{"key", "rotate"} },
	} {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				out, err := b.runCommand(t.Context(), b.home, fmt.Sprintf("secret value %d", i), args(i)...)
				if err != nil {
					t.Errorf("%s: %v, %s", name, err, out)
				}
				if _, id, found := strings.Cut(out, `"id":"`); found && name == "run" {
					mu.Lock()
					acknowledged = append(acknowledged, id[:26])
					mu.Unlock()
				}
			}
		})
	}
	for round := range hosttest.Rounds(3, 50) {
		hosttest.Until(t, "runs are acknowledged", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acknowledged) > 2*round
		})
		mu.Lock()
		before := slices.Clone(acknowledged)
		mu.Unlock()
		file := filepath.Join(b.home, fmt.Sprintf("%d.age", round))
		b.mustRun(b.home, "", "backup", "--out", file, "--to", b.to)
		there := t.TempDir()
		b.mustRun(there, "", "restore", file, "--identity", b.key)
		b.wantRestored(there, before)
	}
	stop()
	writers.Wait()
	b.mustRun(b.home, "", "audit", "verify")
}

// wantRestored checks a restored state against its log.
func (b *backupTest) wantRestored(home string, acknowledged []string) {
	b.Helper()
	ended, named := map[string]bool{}, map[string]bool{}
	log, err := audit.Open(b.Context(), filepath.Join(stateDir(home), "sandboxmcp.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	last := ""
	for row, err := range log.Rows(b.Context(), audit.Filter{}) {
		if err != nil {
			b.Fatal(err)
		}
		if row.Kind == "execution.completed" {
			ended[row.Run] = true
		}
		if _, name, is := strings.Cut(string(row.Data), `"name":"`); is {
			name, _, _ = strings.Cut(name, `"`)
			named[row.Kind+" "+name] = true
		}
		last = row.Kind
	}
	for _, id := range acknowledged {
		if !ended[id] {
			b.Errorf("run %s was acknowledged before the backup, and is not in it", id)
		}
	}
	entries, problems, err := vault.NewSealed(stateDir(home), nil).List(b.Context(), "")
	if err != nil || len(problems) > 0 || len(entries) == 0 {
		b.Errorf("%d secrets, %v, %v", len(entries), problems, err)
	}
	for _, e := range entries {
		if !named["vault.added "+e.Key] {
			b.Errorf("secret %s has no row", e.Key)
		}
	}
	tokens, err := identity.OpenTokens(stateDir(home)).List()
	for _, token := range tokens {
		if !named["token.created "+token.Name] {
			b.Errorf("token %s has no row", token.Name)
		}
	}
	if err != nil || last != "state.restored" {
		b.Errorf("the last row is %s; %v", last, err)
	}
	b.mustRun(home, "", "audit", "verify")
	b.mustRun(home, "", "vault", "verify")
	b.mustRun(home, "", "run", "-c", "true", "--language", "shell")
}

// TestRestoreRefuses checks that a backup that was truncated, changed, or encrypted for another key restores nothing.
func TestRestoreRefuses(t *testing.T) {
	b, other := newBackupTest(t), newBackupTest(t)
	b.mustRun(b.home, "value", "vault", "add", "K", "--stdin")
	file := filepath.Join(b.home, "b.age")
	b.mustRun(b.home, "", "backup", "--out", file, "--to", b.to)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, _ := os.Stat(file)
	if info.Mode() != 0o600 {
		t.Errorf("the mode of a backup is %v", info.Mode())
	}
	if out, err := b.runCommand(t.Context(), b.home, "", "backup", "--out", file, "--to", b.to); err == nil ||
		!strings.Contains(out, "already exists") {
		t.Errorf("an existing file: %v, %s", err, out)
	}
	if out, err := b.runCommand(t.Context(), b.home, "", "restore", file, "--identity", b.key); err == nil ||
		!strings.Contains(out, "there is a state") {
		t.Errorf("over a state: %v, %s", err, out)
	}
	refused := func(name string, content []byte, key string) {
		t.Helper()
		there := t.TempDir()
		bad := filepath.Join(there, "bad.age")
		if err := os.WriteFile(bad, content, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := b.runCommand(t.Context(), there, "", "restore", bad, "--identity", key)
		if err == nil || !strings.Contains(out, "nothing was put in place") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
		if left, _ := os.ReadDir(filepath.Join(there, "state")); len(left) > 0 {
			t.Errorf("%s left %v", name, left)
		}
	}
	refused("another key", whole, other.key)
	refused("nothing", nil, b.key)
	for range hosttest.Rounds(10, 500) {
		cut, at := rand.N(len(whole)), rand.N(len(whole))
		refused(fmt.Sprintf("cut off at %d", cut), whole[:cut], b.key)
		flipped := slices.Clone(whole)
		flipped[at] ^= 1 << rand.N(8)
		refused(fmt.Sprintf("a bit of byte %d", at), flipped, b.key)
	}
	refused("more behind it", append(slices.Clone(whole), 0), b.key)
}

// TestKilledWhileBackingUp checks that a killed backup leaves no file, and a killed restore nothing incomplete; the
// next command removes their leftovers.
func TestKilledWhileBackingUp(t *testing.T) {
	b := newBackupTest(t)
	b.mustRun(b.home, "value", "vault", "add", "K", "--stdin")
	dir := filepath.Join(b.home, "kept")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(dir, "whole.age")
	began := time.Now()
	b.mustRun(b.home, "", "backup", "--out", whole, "--to", b.to)
	usual, made := time.Since(began), 0
	for i := range hosttest.Rounds(15, 200) {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(usual*5/4))
		file := filepath.Join(dir, fmt.Sprintf("%d.age", i))
		_, err := b.runCommand(ctx, b.home, "", "backup", "--out", file, "--to", b.to)
		cancel()
		if _, none := os.Stat(file); none != nil {
			if err == nil {
				t.Errorf("%s is not there", file)
			}
			continue
		}
		made++
		b.mustRun(t.TempDir(), "", "restore", file, "--identity", b.key)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != made+1 {
		t.Errorf("there are %v, and %d were made; %v", entries, made, err)
	}
	there, done := t.TempDir(), 0
	for range hosttest.Rounds(15, 200) {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(usual*5/2))
		_, _ = b.runCommand(ctx, there, "", "restore", whole, "--identity", b.key)
		cancel()
		if _, err := os.Stat(stateDir(there)); err == nil {
			done++
			b.wantRestored(there, nil)
			if err := os.RemoveAll(stateDir(there)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.mustRun(there, "", "restore", whole, "--identity", b.key)
	if left, err := os.ReadDir(filepath.Join(there, "state")); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
	t.Logf("%d backups and %d restorations were done before they were killed", made, done)
}

// TestBackupOnAFullDisk checks that neither command leaves anything on a full disk.
func TestBackupOnAFullDisk(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	b := newBackupTest(t)
	b.mustRun(b.home, "value", "vault", "add", "K", "--stdin")
	whole := filepath.Join(b.home, "whole.age")
	b.mustRun(b.home, "", "backup", "--out", whole, "--to", b.to)
	small := filepath.Join(t.TempDir(), "small")
	if err := errors.Join(os.Mkdir(small, 0o700), syscall.Mount("none", small, "tmpfs", 0, "size=64k")); err != nil {
		hosttest.SkipMissing(t, "mount namespace", err.Error())
	}
	defer syscall.Unmount(small, syscall.MNT_DETACH)
	out, err := b.runCommand(t.Context(), b.home, "", "backup", "--out", filepath.Join(small, "b.age"), "--to", b.to)
	if entries, _ := os.ReadDir(small); err == nil || !strings.Contains(out, "nothing is left of the backup") || len(entries) > 0 {
		t.Errorf("a backup: %v, %s; left are %v", err, out, entries)
	}
	there := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(there, "state"), 0o700), syscall.Mount("none", filepath.Join(there, "state"), "tmpfs", 0,
		"size=64k")); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(filepath.Join(there, "state"), syscall.MNT_DETACH)
	out, err = b.runCommand(t.Context(), there, "", "restore", whole, "--identity", b.key)
	if entries, _ := os.ReadDir(filepath.Join(there, "state")); err == nil || !strings.Contains(out, "nothing was put in place") ||
		len(entries) > 0 {
		t.Errorf("a restoration: %v, %s; left are %v", err, out, entries)
	}
}

// TestBackupKnowsAllState checks that the table of a backup's parts has a row for each file that a server and its
// commands create.
func TestBackupKnowsAllState(t *testing.T) {
	requireFeatures(t, "sandbox", "bash")
	b := newBackupTest(t)
	b.mustRun(b.home, "value", "vault", "add", "K", "--stdin")
	b.mustRun(b.home, "", "token", "create", "t", "--namespace", "default")
	b.mustRun(b.home, "", "key", "rotate")
	b.mustRun(b.home, "", "start", "--listen", "127.0.0.1:0")
	b.mustRun(b.home, "", "run", "-c", "echo >f", "--language", "shell", "--here")
	out := b.mustRun(b.home, "", "backup", "--out", filepath.Join(b.home, "b.age"), "--to", b.to)
	b.mustRun(b.home, "", "stop")
	if strings.Contains(out, "warning") {
		t.Error(out)
	}
	there := t.TempDir()
	b.mustRun(there, "", "restore", filepath.Join(b.home, "b.age"), "--identity", b.key)
	err := filepath.WalkDir(stateDir(there), func(path string, e fs.DirEntry, err error) error {
		if info, err := e.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("others may read %s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
