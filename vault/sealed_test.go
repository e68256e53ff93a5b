package vault

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sealKeys returns a store that has these keys in the namespace default.
func sealKeys(t *testing.T, keys ...string) *Sealed {
	t.Helper()
	s := NewSealed(filepath.Join(t.TempDir(), "state"), nil)
	for _, key := range keys {
		if err := s.Add(t.Context(), Entry{Namespace: "default", Key: key}, valueOf(key), false); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// wantValue checks that a secret of the namespace default is complete.
func wantValue(t *testing.T, s *Sealed, key string) {
	t.Helper()
	if got, _, err := s.Get(t.Context(), "default", key); !bytes.Equal(got, valueOf(key)) || err != nil {
		t.Errorf("%s: got %q, %v", key, got, err)
	}
}

// tamper changes the database without the store's knowledge.
func tamper(t *testing.T, s *Sealed, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", s.databasePath())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatal(err)
	}
}

// directoryFiles returns the contents of the store's directory, by name.
func directoryFiles(t *testing.T, s *Sealed) map[string]string {
	t.Helper()
	all := map[string]string{}
	list, err := os.ReadDir(s.dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, f := range list {
		b, err := os.ReadFile(filepath.Join(s.dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(b)
	}
	return all
}

func TestSealed(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "state", "of mine?#%")
	to := Binding{Hosts: []string{"api.example.com", "*.example.org:8443"}, Require: true}
	one := Entry{Namespace: "team_a", Key: "A__KEY", Binding: to}
	if err := NewSealed(dir, nil).Add(ctx, one, []byte("first\xff"), false); err != nil {
		t.Fatal(err)
	}
	s := NewSealed(dir, nil) // like another process
	value, got, err := s.Get(ctx, "team_a", "A__KEY")
	if string(value) != "first\xff" || err != nil {
		t.Errorf("got %q, %v", value, err)
	}
	if diff := cmp.Diff(to, got); diff != "" {
		t.Error(diff)
	}
	for _, at := range []secretName{{"team-a", "A__KEY"}, {"team_a", "a__key"}, {"default", "A__KEY"}, {"team_a", "' OR 1=1 --"}} {
		if _, _, err := s.Get(ctx, at.namespace, at.key); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: %v", at, err)
		}
	}
	if err := s.Add(ctx, one, []byte("second"), false); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "A__KEY") {
		t.Errorf("added twice: %v", err)
	}
	if err := s.Add(ctx, Entry{Namespace: "team_a", Key: "A__KEY"}, []byte("second"), true); err != nil {
		t.Fatal(err)
	}
	if value, got, err := s.Get(ctx, "team_a", "A__KEY"); string(value) != "second" || got.isBound() || err != nil {
		t.Errorf("replaced: got %q, %v, %v", value, got, err)
	}
	l, err := New(Environment(), s).Lease(ctx, "team_a", []string{"A__KEY"}) // the environment can't have it
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Delete(ctx, "team_a", "A__KEY"); err != nil {
		t.Error(err)
	}
	if err := s.Delete(ctx, "team_a", "A__KEY"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, _, err := s.Get(ctx, "team_a", "A__KEY"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

func TestSealedRefusesNames(t *testing.T) {
	s, value := sealKeys(t), "hunter2-"+"hunter2"
	for _, at := range []secretName{{"a b", "KEY"}, {"", "KEY"}, {"..", "KEY"}, {"a", "KEY=" + value}, {"a", value}, {"a", ""}} {
		err := s.Add(t.Context(), Entry{Namespace: at.namespace, Key: at.key}, []byte(value), false)
		if err == nil || strings.Contains(err.Error(), value) || s.Delete(t.Context(), at.namespace, at.key) == nil {
			t.Errorf("%v: %v", at.namespace, err)
		}
	}
	for _, v := range []string{"", "a\x00b", strings.Repeat("x", MaxValue+1)} {
		if err := s.Add(t.Context(), Entry{Namespace: "a", Key: "KEY"}, []byte(v), false); err == nil || !strings.Contains(err.Error(), "KEY") {
			t.Errorf("%.10q: %v", v, err)
		}
	}
	if got := directoryFiles(t, s); len(got) != 0 {
		t.Errorf("made %d files", len(got))
	}
	largest := bytes.Repeat([]byte{'x'}, MaxValue)
	if err := s.Add(t.Context(), Entry{Namespace: "a", Key: "KEY"}, largest, false); err != nil {
		t.Error(err)
	}
	if got, _, err := s.Get(t.Context(), "a", "KEY"); !bytes.Equal(got, largest) || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestList(t *testing.T) {
	began := time.Now().Truncate(time.Second)
	s := sealKeys(t, "B", "A")
	to := Binding{Hosts: []string{"api.example.com"}, Body: true}
	if err := s.Add(t.Context(), Entry{Namespace: "other", Key: "A", Binding: to}, []byte("value"), false); err != nil {
		t.Fatal(err)
	}
	want := []Entry{{Namespace: "default", Key: "A"}, {Namespace: "default", Key: "B"}, {Namespace: "other", Key: "A", Binding: to}}
	for namespace, want := range map[string][]Entry{"": want, "default": want[:2], "other": want[2:], "none": nil} {
		got, problems, err := s.List(t.Context(), namespace)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Entry{}, "Added", "Store")); diff != "" || problems != nil || err != nil {
			t.Errorf("%q: %v, %v\n%s", namespace, problems, err, diff)
		}
		for _, e := range got {
			if e.Added.Before(began) || e.Added.After(time.Now()) {
				t.Errorf("%s was added at %v", e.Key, e.Added)
			}
		}
	}
	tamper(t, s, "UPDATE secret SET sealed = x'00' WHERE key = 'B'")
	got, problems, err := s.List(t.Context(), "default")
	if len(got) != 2 || got[1].Key != "B" || len(problems) != 1 || !strings.Contains(problems[0].Error(), "secret B") || err != nil {
		t.Errorf("got %v, %v, %v", got, problems, err)
	}
}

// TestReadsMakeNothing: reading creates neither the directory, nor a key, nor a file beside the database.
func TestReadsMakeNothing(t *testing.T) {
	read := func(s *Sealed) {
		s.Get(t.Context(), "default", "KEY")
		s.List(t.Context(), "")
		s.Delete(t.Context(), "default", "OTHER")
		if l, err := New(s).Lease(t.Context(), "default", []string{"KEY"}); err == nil {
			l.Close()
		}
	}
	none := NewSealed(filepath.Join(t.TempDir(), "state"), nil)
	read(none)
	if _, err := os.Stat(none.dir); !os.IsNotExist(err) {
		t.Errorf("the directory was made: %v", err)
	}
	s := sealKeys(t, "KEY")
	before := directoryFiles(t, s)
	read(s)
	if diff := cmp.Diff(before, directoryFiles(t, s)); diff != "" {
		t.Error(diff)
	}
	err := s.readDatabase(t.Context(), func(db *sql.DB) error {
		_, err := selectRow(t.Context(), db, "default", "KEY")
		if during := directoryFiles(t, s); len(during) != 2 || len(before) != 2 {
			t.Errorf("there were %d files, and during a read %d", len(before), len(during))
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOnlyTheOwnerMayRead(t *testing.T) {
	s := sealKeys(t, "KEY")
	for name, want := range map[string]os.FileMode{"": 0o700 | os.ModeDir, "vault.db": 0o600, "vault.key": 0o600} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%q: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
}

func TestRecord(t *testing.T) {
	var changes []Change
	var refuse error
	s := sealKeys(t)
	there := func(key string) bool {
		_, _, err := s.Get(t.Context(), "default", key)
		return err == nil
	}
	recorded := NewSealed(s.dir, func(_ context.Context, c Change) error {
		changes = append(changes, c)
		if there(c.Key) == (c.Kind == Added) {
			t.Errorf("%s of %s was made before it was recorded", c.Kind, c.Key)
		}
		return refuse
	})
	e := Entry{Namespace: "default", Key: "KEY", Binding: Binding{Hosts: []string{"api.example.com"}}}
	refuse = errors.New("no log")
	if err := recorded.Add(t.Context(), e, []byte("value"), false); !errors.Is(err, refuse) || there("KEY") {
		t.Errorf("without a record: %v", err)
	}
	refuse = nil
	if err := recorded.Add(t.Context(), e, []byte("value"), false); err != nil || !there("KEY") {
		t.Errorf("with a record: %v", err)
	}
	if err := recorded.Add(t.Context(), e, []byte("value"), false); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	refuse = errors.New("no log")
	if err := recorded.Delete(t.Context(), "default", "KEY"); !errors.Is(err, refuse) || !there("KEY") {
		t.Errorf("deleted without a record: %v", err)
	}
	refuse = nil
	if err := recorded.Delete(t.Context(), "default", "KEY"); err != nil || there("KEY") {
		t.Errorf("deleted with a record: %v", err)
	}
	recorded.Delete(t.Context(), "default", "KEY")
	want := []Change{{Kind: Added, Entry: e}, {Kind: Added, Entry: e}, {Kind: Deleted, Entry: e}, {Kind: Deleted, Entry: e}}
	if diff := cmp.Diff(want, changes, cmpopts.IgnoreFields(Entry{}, "Added", "Store")); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkSealedGet(b *testing.B) {
	s := NewSealed(b.TempDir(), nil)
	if err := s.Add(b.Context(), Entry{Namespace: "default", Key: "KEY"}, valueOf("KEY"), false); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := s.Get(b.Context(), "default", "KEY"); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDeletedSpace: deleting a secret frees its disk space.
func TestDeletedSpace(t *testing.T) {
	s := sealKeys(t, "KEPT")
	size := func() int64 {
		info, err := os.Stat(s.databasePath())
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if err := s.Add(t.Context(), Entry{Namespace: "default", Key: "LARGE"}, bytes.Repeat([]byte("0123456789"), 6000), false); err != nil {
		t.Fatal(err)
	}
	grown := size()
	if err := s.Delete(t.Context(), "default", "LARGE"); err != nil {
		t.Fatal(err)
	}
	if after := size(); grown < before+40_000 || after > before+8192 {
		t.Errorf("%d bytes, with a large secret %d, and %d without it again", before, grown, after)
	}
	wantValue(t, s, "KEPT")
}
