package vault

import (
	"bufio"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestRekey: a new key opens all secrets of the old one, which opens nothing any more.
func TestRekey(t *testing.T) {
	s := sealKeys(t, "ONE", "TWO")
	to := Binding{Hosts: []string{"api.example.com"}, Require: true, Body: true}
	if err := s.Add(t.Context(), Entry{Namespace: "other", Key: "ONE", Binding: to}, []byte("bound"), false); err != nil {
		t.Fatal(err)
	}
	old, before := directoryFiles(t, s), entriesOf(t, s)
	var changes []Change
	recorded := NewSealed(s.dir, func(_ context.Context, c Change) error { changes = append(changes, c); return nil })
	at, n, err := recorded.Rekey(t.Context(), "")
	if at != InFile || n != 3 || err != nil {
		t.Fatalf("got %s, %d, %v", at, n, err)
	}
	if diff := cmp.Diff([]Change{{Kind: Rekeyed, Place: InFile, Secrets: 3}}, changes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, entriesOf(t, s)); diff != "" {
		t.Error(diff)
	}
	wantValue(t, s, "ONE")
	if value, got, err := s.Get(t.Context(), "other", "ONE"); string(value) != "bound" || !got.Require || err != nil {
		t.Errorf("got %q, %v, %v", value, got, err)
	}
	now := directoryFiles(t, s)
	if len(now) != 2 || now["vault.key"] == old["vault.key"] {
		t.Errorf("%d files are there, and the key is another: %v", len(now), now["vault.key"] != old["vault.key"])
	}
	if err := os.WriteFile(s.keyFilePath(), []byte(old["vault.key"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(t.Context(), "default", "ONE"); !errors.Is(err, errOtherKey) {
		t.Errorf("with the old key: %v", err)
	}
}

func entriesOf(t *testing.T, s *Sealed) []Entry {
	t.Helper()
	entries, problems, err := s.List(t.Context(), "")
	if err != nil || problems != nil {
		t.Fatal(problems, err)
	}
	return entries
}

// TestRekeyRefused: if a new key can't be made, nothing is changed.
func TestRekeyRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *Sealed)
		place   string
		says    string
	}{
		"place": {func(*Sealed) {}, "cloud", "a file or in the keyring"},
		"damaged": {func(s *Sealed) { tamper(t, s, "UPDATE secret SET sealed = x'00' WHERE key = 'TWO'") }, "",
			"secret TWO of namespace default"},
		"other key": {func(s *Sealed) { tamper(t, s, "UPDATE secret SET identity = 'ff' WHERE key = 'TWO'") }, "",
			"secret TWO of namespace default"},
		"no key":    {func(s *Sealed) { os.Remove(s.keyFilePath()) }, "", "is missing"},
		"no log":    {func(s *Sealed) { s.record = func(context.Context, Change) error { return errors.New("no log") } }, "", "no log"},
		"cancelled": {func(*Sealed) {}, "", "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sealKeys(t, "ONE", "TWO")
			c.prepare(s)
			before := directoryFiles(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			if defer1 := cancel; name == "cancelled" {
				defer1()
			} else {
				defer defer1()
			}
			if _, _, err := s.Rekey(ctx, c.place); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(before, directoryFiles(t, s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRekeyEmpty: a vault without secrets, and a missing one, also get a key.
func TestRekeyEmpty(t *testing.T) {
	s := sealKeys(t)
	for range 3 {
		if at, n, err := s.Rekey(t.Context(), ""); at != InFile || n != 0 || err != nil {
			t.Errorf("got %s, %d, %v", at, n, err)
		}
	}
	if err := s.Add(t.Context(), Entry{Namespace: "default", Key: "KEY"}, valueOf("KEY"), false); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "KEY")
	if got := directoryFiles(t, s); len(got) != 2 {
		t.Errorf("%d files", len(got))
	}
}

// TestRekeyInterrupted: the states of a rekeying that was interrupted at two points are readable, and the next
// change cleans them up.
func TestRekeyInterrupted(t *testing.T) {
	for name, undo := range map[string]func(s *Sealed, old map[string]string){
		"before the database": func(s *Sealed, old map[string]string) { // the new key exists, the secrets are sealed for the old one
			os.Rename(s.keyFilePath(), s.nextKeyFilePath())
			os.WriteFile(s.keyFilePath(), []byte(old["vault.key"]), 0o600)
			os.WriteFile(s.databasePath(), []byte(old["vault.db"]), 0o600)
		},
		"after the database": func(s *Sealed, old map[string]string) {
			os.Rename(s.keyFilePath(), s.nextKeyFilePath())
			os.WriteFile(s.keyFilePath(), []byte(old["vault.key"]), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sealKeys(t, "ONE", "TWO")
			old := directoryFiles(t, s)
			if _, _, err := s.Rekey(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			undo(s, old)
			wantValue(t, s, "ONE")
			if err := s.Add(t.Context(), Entry{Namespace: "default", Key: "NEXT"}, valueOf("NEXT"), false); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"ONE", "TWO", "NEXT"} {
				wantValue(t, s, key)
			}
			if left := directoryFiles(t, s); len(left) != 2 {
				t.Errorf("%d files are left", len(left))
			}
		})
	}
}

// TestReadTooLate: a reader that has read a row just before it was sealed anew reads it again.
func TestReadTooLate(t *testing.T) {
	s := sealKeys(t, "ONE", "TWO")
	rows, err := rowsOf(t.Context(), s)
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	if _, _, err := s.Rekey(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, value, err := s.openRow(t.Context(), rows[0]); string(value) != string(valueOf("ONE")) || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
	if _, problems := s.openAll(t.Context(), rows); problems != nil {
		t.Errorf("a list takes it for a fault of the key: %v", problems)
	}
	tamper(t, s, "UPDATE secret SET identity = 'ff' WHERE key = 'ONE'")
	if rows, err = rowsOf(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.openRow(t.Context(), rows[0]); !errors.Is(err, errOtherKey) {
		t.Errorf("of another key: %v", err)
	}
	if _, problems := s.openAll(t.Context(), rows); len(problems) != 1 {
		t.Errorf("of another key: %v", problems)
	}
}

// TestRekeyAtOnce: processes that make new keys, others that add, and readers work concurrently.
func TestRekeyAtOnce(t *testing.T) {
	s := sealKeys(t, "ONE", "TWO", "THREE")
	stop := make(chan struct{})
	var readers sync.WaitGroup
	reads := 0
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			wantValue(t, s, "TWO")
			if _, problems, err := s.List(t.Context(), ""); problems != nil || err != nil {
				t.Errorf("a list: %v, %v", problems, err)
			}
			reads++
		}
	})
	lines := startAndWait(t, rekeyer(t, s.dir, "file", 15), rekeyer(t, s.dir, "file", 15), adder(t, s.dir, "P", 10))
	close(stop)
	readers.Wait()
	for _, l := range lines {
		if strings.HasPrefix(l, "error") {
			t.Error(l)
		}
		if strings.HasPrefix(l, "P") {
			wantValue(t, s, l)
		}
	}
	for _, key := range []string{"ONE", "TWO", "THREE"} {
		wantValue(t, s, key)
	}
	if left := directoryFiles(t, s); len(left) != 2 || reads == 0 || len(lines) != 40 {
		t.Errorf("%d files, %d reads, %d lines", len(left), reads, len(lines))
	}
}

// TestKilledWhileRekeying kills a process that makes new keys at random moments: all secrets stay readable.
func TestKilledWhileRekeying(t *testing.T) {
	killWhileRekeying(t, sealKeys(t), hosttest.Rounds(25, 80), InFile)
}

func killWhileRekeying(t *testing.T, s *Sealed, kills int, places string) {
	t.Helper()
	var keys []string
	for i := range 20 {
		key := "K" + strconv.Itoa(i)
		if err := s.Add(t.Context(), Entry{Namespace: "default", Key: key}, valueOf(key), false); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	done, between := 0, 0
	for i := range kills {
		cmd := rekeyer(t, s.dir, places, 1000)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		began, ended := false, make(chan struct{})
		for in := bufio.NewScanner(out); in.Scan(); done++ {
			if strings.HasPrefix(in.Text(), "error") {
				t.Error(in.Text())
			}
			if !began {
				began = true
				go killSoon(s, cmd.Process, i%2 == 0, ended)
			}
		}
		cmd.Wait()
		close(ended)
		if _, err := os.Stat(s.nextKeyFilePath()); err == nil {
			between++
		}
		entries, problems, err := s.List(t.Context(), "")
		if len(entries) != len(keys) || problems != nil || err != nil {
			t.Fatalf("after %d kills: %d secrets, %v, %v", i+1, len(entries), problems, err)
		}
		wantValue(t, s, keys[i%len(keys)])
		if i%3 != 0 { // sometimes the next process comes right after the killed one
			continue
		}
		if _, err := s.Rotate(t.Context(), "default", keys[0], valueOf(keys[0])); err != nil {
			t.Fatalf("after %d kills: %v", i+1, err)
		}
		wantTidy(t, s)
	}
	t.Logf("%d kills, %d of them between two keys; %d new keys", kills, between, done)
	if between == 0 {
		t.Error("no kill came between two keys: that tests nothing")
	}
}

// killSoon kills a process at a random moment, or shortly after it has prepared the next key.
func killSoon(s *Sealed, p *os.Process, anyhow bool, ended <-chan struct{}) {
	for ; !anyhow; time.Sleep(100 * time.Microsecond) {
		select {
		case <-ended:
			return
		default:
		}
		if _, err := os.Lstat(s.nextKeyFilePath()); err == nil {
			time.Sleep(rand.N(8 * time.Millisecond))
			p.Kill()
			return
		}
	}
	time.Sleep(rand.N(40 * time.Millisecond))
	p.Kill()
}

func TestRotate(t *testing.T) {
	s := sealKeys(t)
	e := Entry{Namespace: "default", Key: "KEY", Binding: Binding{Hosts: []string{"api.example.com"}, Require: true}}
	if err := s.Add(t.Context(), e, []byte("old-value"), false); err != nil {
		t.Fatal(err)
	}
	var changes []Change
	recorded := NewSealed(s.dir, func(_ context.Context, c Change) error { changes = append(changes, c); return nil })
	for name, c := range map[string]struct{ namespace, key, value, says string }{
		"not there":       {"default", "OTHER", "new-value", "not in the vault"},
		"other namespace": {"team", "KEY", "new-value", "not in the vault"},
		"no value":        {"default", "KEY", "", "empty"},
		"two lines":       {"default", "KEY", "new\nvalue", "line break"},
		"name":            {"default", "KEY=new-value", "x", "name the secret alone"},
	} {
		_, err := recorded.Rotate(t.Context(), c.namespace, c.key, []byte(c.value))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "new-value") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if value, _, err := s.Get(t.Context(), "default", "KEY"); string(value) != "old-value" || changes != nil || err != nil {
		t.Errorf("refused, and now it is %q, %v", value, err)
	}
	began := time.Now().Truncate(time.Second)
	changed, err := recorded.Rotate(t.Context(), "default", "KEY", []byte("new-value"))
	if err != nil || len(changes) != 1 || changes[0].Kind != Rotated {
		t.Fatalf("recorded %v, %v", changes, err)
	}
	value, to, err := s.Get(t.Context(), "default", "KEY")
	if diff := cmp.Diff(e.Binding, to); string(value) != "new-value" || diff != "" || err != nil {
		t.Errorf("got %q, %v\n%s", value, err, diff)
	}
	if changed.Added.Before(began) || changed.Store != InSealed {
		t.Errorf("got %+v", changed)
	}
}

// TestAddAll: all secrets are added, or none.
func TestAddAll(t *testing.T) {
	s := sealKeys(t, "THERE")
	some := func(keys ...string) (all []Addition) {
		for _, key := range keys {
			all = append(all, Addition{Entry{Namespace: "default", Key: key}, valueOf(key)})
		}
		return all
	}
	bad := some("NEW", "TWO")
	bad[1].Value = nil
	for name, c := range map[string]struct {
		all  []Addition
		says string
	}{"there": {some("NEW", "THERE"), "secret THERE"}, "empty": {bad, "secret TWO"}, "name": {some("NEW", "A B"), "invalid"}} {
		if err := s.AddAll(t.Context(), c.all, false); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", name, err)
		}
		if entries := entriesOf(t, s); len(entries) != 1 {
			t.Errorf("%s: %d are there", name, len(entries))
		}
	}
	if err := s.AddAll(t.Context(), some("NEW", "THERE"), true); err != nil || len(entriesOf(t, s)) != 2 {
		t.Error(err)
	}
}
