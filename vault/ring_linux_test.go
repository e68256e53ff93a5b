package vault

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sandboxmcp/sandboxmcp/vault/keyring"
	"github.com/sandboxmcp/sandboxmcp/vault/keyring/keyringtest"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// byHand puts a secret into the keyring like a person would.
func byHand(t *testing.T, s *Sealed, namespace, key, text string) {
	t.Helper()
	if err := s.ring.Set(t.Context(), "sandboxmcp", namespace+"/"+key, text); err != nil {
		t.Fatal(err)
	}
}

func ringEntry(key string, hosts ...string) Entry {
	return Entry{Namespace: "default", Key: key, Store: InKeyring, Binding: Binding{Hosts: hosts}}
}

func TestKeyringStore(t *testing.T) {
	keyringtest.Start(t)
	s, ctx := sealKeys(t), t.Context()
	ring := Keyring(s.dir)
	byHand(t, s, "default", "HAND", "by-hand\n")
	value, to, err := ring.Get(ctx, "default", "HAND")
	if string(value) != "by-hand" || to.isBound() || err != nil {
		t.Errorf("by hand: got %q, %v, %v", value, to, err)
	}
	if err := s.Add(ctx, ringEntry("HAND"), []byte("added"), false); !errors.Is(err, ErrExists) {
		t.Errorf("over what was put there by hand: %v", err)
	}
	e := ringEntry("KEY", "api.example.com")
	e.Require = true
	if err := s.Add(ctx, e, []byte("added\xff"), false); err != nil {
		t.Fatal(err)
	}
	value, to, err = ring.Get(ctx, "default", "KEY")
	if diff := cmp.Diff(e.Binding, to); string(value) != "added\xff" || diff != "" || err != nil {
		t.Errorf("got %q, %v\n%s", value, err, diff)
	}
	if _, _, err := s.Get(ctx, "default", "KEY"); !errors.Is(err, ErrNotFound) {
		t.Errorf("from the sealed store: %v", err)
	}
	for _, at := range []secretName{{"team", "KEY"}, {"default", "KE"}, {"team", "HAND"}, {"default", "NONE"}} {
		if _, _, err := ring.Get(ctx, at.namespace, at.key); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: %v", at, err)
		}
	}
	if err := s.Add(ctx, e, []byte("again"), false); !errors.Is(err, ErrExists) {
		t.Errorf("added twice: %v", err)
	}
	if _, err := s.Rotate(ctx, "default", "KEY", []byte("rotated")); err != nil {
		t.Fatal(err)
	}
	if value, to, err = ring.Get(ctx, "default", "KEY"); string(value) != "rotated" || !to.Require || err != nil {
		t.Errorf("rotated: got %q, %v, %v", value, to, err)
	}
	if diff := cmp.Diff([]Entry{e}, entriesOf(t, s), cmpopts.IgnoreFields(Entry{}, "Added")); diff != "" {
		t.Error(diff)
	}
	for name, text := range directoryFiles(t, s) {
		if strings.Contains(text, "rotated") || strings.Contains(text, "api.example.com") {
			t.Errorf("%s shows it", name)
		}
	}
	if err := s.Delete(ctx, "default", "KEY"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ring.Get(ctx, "sandboxmcp", "default/KEY"); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("deleted, and in the keyring it is: %v", err)
	}
	if value, _, _ := ring.Get(ctx, "default", "HAND"); string(value) != "by-hand" {
		t.Errorf("what was put there by hand is %q", value)
	}
}

// TestMovesBetweenStores: a name has one place: a replacement moves from one store to the other, and leaves nothing
// behind.
func TestMovesBetweenStores(t *testing.T) {
	keyringtest.Start(t)
	s, ctx := sealKeys(t, "KEY"), t.Context()
	ring := Keyring(s.dir)
	if err := s.Add(ctx, ringEntry("KEY"), []byte("in the keyring"), false); !errors.Is(err, ErrExists) {
		t.Errorf("got %v", err)
	}
	if err := s.Add(ctx, ringEntry("KEY"), []byte("in the keyring"), true); err != nil {
		t.Fatal(err)
	}
	if value, _, err := ring.Get(ctx, "default", "KEY"); string(value) != "in the keyring" || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
	if err := s.Add(ctx, Entry{Namespace: "default", Key: "KEY"}, valueOf("KEY"), true); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "KEY")
	if _, err := s.ring.Get(ctx, "sandboxmcp", "default/KEY"); !errors.Is(err, keyring.ErrNotFound) {
		t.Errorf("moved, and in the keyring it is: %v", err)
	}
	if entries := entriesOf(t, s); len(entries) != 1 || entries[0].Store != InSealed {
		t.Errorf("got %v", entries)
	}
}

// TestKeyringTampered: changes of the database or the keyring by an attacker bind no secret anew unnoticed.
func TestKeyringTampered(t *testing.T) {
	keyringtest.Start(t)
	s, ctx := sealKeys(t, "SEALED"), t.Context()
	ring := Keyring(s.dir)
	if err := s.Add(ctx, ringEntry("KEY", "api.example.com"), []byte("bound-value"), false); err != nil {
		t.Fatal(err)
	}
	item, err := s.ring.Get(ctx, "sandboxmcp", "default/KEY")
	if err != nil {
		t.Fatal(err)
	}
	byHand(t, s, "team", "KEY", item)
	tamper(t, s, "INSERT INTO secret VALUES ('team', 'KEY', 'keyring', x'')")
	if value, _, err := ring.Get(ctx, "team", "KEY"); !errors.Is(err, errDamaged) || value != nil {
		t.Errorf("copied to another namespace: %q, %v", value, err)
	}
	tamper(t, s, "DELETE FROM secret WHERE namespace = 'team'")
	if value, _, err := ring.Get(ctx, "team", "KEY"); !errors.Is(err, ErrNotFound) || value != nil {
		t.Errorf("not in the list: %q, %v", value, err)
	}
	tamper(t, s, "UPDATE secret SET identity = 'keyring' WHERE key = 'SEALED'")
	if value, _, err := ring.Get(ctx, "default", "SEALED"); !errors.Is(err, keyring.ErrNotFound) || errors.Is(err, ErrNotFound) ||
		value != nil {
		t.Errorf("a sealed one, marked as in the keyring: %q, %v", value, err)
	}
	byHand(t, s, "default", "KEY", "unbound")
	if value, _, err := ring.Get(ctx, "default", "KEY"); !errors.Is(err, errPutByHand) || value != nil {
		t.Errorf("replaced by hand: %q, %v", value, err)
	}
	_, problems, err := s.List(ctx, "")
	if len(problems) != 2 || err != nil {
		t.Errorf("the list has the problems %v, %v", problems, err)
	}
	if err := s.Delete(ctx, "default", "KEY"); err != nil {
		t.Error(err)
	}
	if value, to, err := ring.Get(ctx, "default", "KEY"); string(value) != "unbound" || to.isBound() || err != nil {
		t.Errorf("deleted, so that what was put there by hand is leased: %q, %v", value, err)
	}
}

// TestKeyringAway: nothing is lost while the keyring is unavailable; all secrets are there when it returns.
func TestKeyringAway(t *testing.T) {
	b := keyringtest.Start(t)
	s, ctx := sealKeys(t, "SEALED"), t.Context()
	for i := range 10 {
		if err := s.Add(ctx, ringEntry("KEY"+strconv.Itoa(i)), []byte("value"), false); err != nil {
			t.Fatal(err)
		}
	}
	for name, away := range map[string]func(){"stopped": func() { b.Stop(t) }, "locked": func() { b.Lock(t) }} {
		away()
		before := directoryFiles(t, s)
		_, _, getErr := Keyring(s.dir).Get(ctx, "default", "KEY1")
		_, _, noneErr := Keyring(s.dir).Get(ctx, "default", "NONE")
		_, rotateErr := s.Rotate(ctx, "default", "KEY1", []byte("new"))
		_, _, rekeyErr := s.Rekey(ctx, InKeyring)
		for _, err := range []error{getErr, noneErr, rotateErr, rekeyErr, s.Add(ctx, ringEntry("NEXT"), []byte("value"), false),
			s.Add(ctx, ringEntry("SEALED"), []byte("value"), true), s.Delete(ctx, "default", "KEY1")} {
			if !errors.Is(err, keyring.ErrUnavailable) || errors.Is(err, ErrNotFound) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		entries, problems, err := s.List(ctx, "")
		if len(entries) != 11 || len(problems) != 10 || err != nil {
			t.Errorf("%s: %d, %v, %v", name, len(entries), problems, err)
		}
		if diff := cmp.Diff(before, directoryFiles(t, s)); diff != "" {
			t.Error(name, diff)
		}
		wantValue(t, s, "SEALED")
		b.Stop(t)
		b.Unlock(t)
		if value, _, err := Keyring(s.dir).Get(ctx, "default", "KEY1"); string(value) != "value" || err != nil {
			t.Errorf("%s, and back: %q, %v", name, value, err)
		}
	}
}

// keysInRing counts the vault keys in the keyring.
func keysInRing(t *testing.T) int {
	t.Helper()
	if _, err := exec.LookPath("secret-tool"); err != nil {
		return -1
	}
	out, _ := exec.Command("secret-tool", "search", "--all", "service", keyringKeyService).CombinedOutput()
	return strings.Count(string(out), "attribute.username")
}

// TestRekeyIntoTheKeyring: the vault's key moves into the keyring and back; there is one key at any time.
func TestRekeyIntoTheKeyring(t *testing.T) {
	b := keyringtest.Start(t)
	s, ctx := sealKeys(t, "ONE", "TWO"), t.Context()
	if err := s.Add(ctx, ringEntry("RING"), []byte("value"), false); err != nil {
		t.Fatal(err)
	}
	for i, place := range []string{InKeyring, "", InKeyring, InFile, "", InKeyring} {
		want := place
		if place == "" {
			want = []string{1: InKeyring, 4: InFile}[i]
		}
		if at, n, err := s.Rekey(ctx, place); at != want || n != 2 || err != nil {
			t.Fatalf("%q: got %s, %d, %v", place, at, n, err)
		}
		wantValue(t, s, "ONE")
		wantValue(t, s, "TWO")
		all := directoryFiles(t, s)
		if strings.Contains(all["vault.key"], "AGE-SECRET-KEY") != (want == InFile) || len(all) != 2 {
			t.Errorf("%q: %d files, and the key is %q", place, len(all), all["vault.key"][:20])
		}
		wantKeys := 1
		if want == InFile {
			wantKeys = 0
		}
		if n := keysInRing(t); n != wantKeys && n >= 0 {
			t.Errorf("%q: %d keys in the keyring, want %d", place, n, wantKeys)
		}
	}
	k, err := readKeyFile(s.keyFilePath())
	if err != nil {
		t.Fatal(err)
	}
	if value, _, err := Keyring(s.dir).Get(ctx, keyringKeyService, k.name); err == nil {
		t.Errorf("the key of the vault is leased as a secret: %d bytes", len(value))
	}
	b.Stop(t)
	if _, _, err := s.Get(ctx, "default", "ONE"); !errors.Is(err, keyring.ErrUnavailable) {
		t.Errorf("without the keyring: %v", err)
	}
	if _, _, err := s.Rekey(ctx, InFile); !errors.Is(err, keyring.ErrUnavailable) {
		t.Errorf("a new key without the keyring: %v", err)
	}
	b.Unlock(t)
	wantValue(t, s, "ONE")
	s.deleteKeyFromKeyring(ctx, k)
	if _, _, err := s.Get(ctx, "default", "ONE"); !errors.Is(err, errNoKey) {
		t.Errorf("without the key: %v", err)
	}
	s.Delete(ctx, "default", "ONE")
	s.Delete(ctx, "default", "TWO")
	if err := s.Add(ctx, Entry{Namespace: "default", Key: "NEXT"}, valueOf("NEXT"), false); err != nil {
		t.Errorf("add to a vault without sealed secrets: %v", err)
	}
	wantValue(t, s, "NEXT")
}

func TestKilledWhileMovingTheKey(t *testing.T) {
	keyringtest.Start(t)
	s := sealKeys(t)
	killWhileRekeying(t, s, hosttest.Rounds(10, 30), InKeyring+","+InFile)
	if _, _, err := s.Rekey(t.Context(), InFile); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys are left in the keyring", keysInRing(t))
}

// TestKeyringOfAnOrdinaryUser: an ordinary user has a keyring like root's.
func TestKeyringOfAnOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the other tests are it")
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "vault")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.WriteFile(dir+"/test", program, 0o755), os.Mkdir(dir+"/tmp", 0o777), os.Chmod(dir+"/tmp", 0o777),
		os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), hosttest.Program(t, "setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups",
		"--inh-caps=-all",
		dir+"/test", "-test.run", "^(TestKeyringStore|TestRekeyIntoTheKeyring)$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir+"/tmp", "TMPDIR="+dir+"/tmp")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS")+strings.Count(string(out), "--- SKIP") != 2 {
		t.Errorf("%v: %s", err, out)
	}
}
