package audit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// gone returns a row about an event that has already happened.
func gone(run string) Entry {
	return Entry{Kind: "token.revoked", Run: run, Namespace: "default", Data: map[string]any{"name": "ci"}, Late: true}
}

// wantLate reads the rows of a kind from a log: late ones contain the time of the event.
func wantLate(t *testing.T, l *Log, run string) {
	t.Helper()
	rows := collect(t, l, Filter{Kinds: []string{"token.revoked"}, Run: run})
	if len(rows) != 1 {
		t.Fatalf("%s: %d rows", run, len(rows))
	}
	var data struct {
		Name     string
		Happened time.Time
	}
	if err := json.Unmarshal(rows[0].Data, &data); err != nil || data.Name != "ci" || data.Happened.IsZero() ||
		data.Happened.After(rows[0].Time) {
		t.Errorf("%s: %s, %v", run, rows[0].Data, err)
	}
}

// TestOwed: a row about an event that has happened survives a full disk, in this process and in one that opens the
// log later. The status reports that rows can't be written, and that they can be again.
func TestOwed(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	dir, free := smallDisk(t, 600<<10)
	path := filepath.Join(dir, "audit.db")
	l := openSigned(t, path, signing(10))
	hosttest.Until(t, "there is a file for what is owed", func() bool { _, err := os.Stat(path + "-owed"); return err == nil })
	if err := l.Writable(); err != nil {
		t.Errorf("an empty disk: %v", err)
	}
	fillDisk(t, l)
	if err := l.Writable(); err == nil {
		t.Error("a full disk can be written")
	}
	fillRest(t, dir, l)
	for _, run := range []string{"one", "two"} {
		_, err := l.Append(t.Context(), gone(run))
		if !errors.As(err, new(*Owed)) {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := l.Append(t.Context(), Entry{Kind: "x"}); err == nil || errors.As(err, new(*Owed)) {
		t.Errorf("a row of what has not happened: %v", err)
	}
	_ = l.Close() // some rows may be unsigned

	l = openSigned(t, path, signing(10)) // like after a restart
	hosttest.Until(t, "that no row can be written shows", func() bool { return l.Writable() != nil })
	if _, err := l.Append(t.Context(), gone("three")); !errors.As(err, new(*Owed)) {
		t.Fatalf("got %v", err)
	}
	free()
	hosttest.Until(t, "rows can be written", func() bool { return l.Writable() == nil })
	hosttest.Until(t, "what was owed is written", func() bool { return len(collect(t, l, Filter{Kinds: []string{"token.revoked"}})) == 3 })
	for _, run := range []string{"one", "two", "three"} {
		wantLate(t, l, run)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if content, err := os.ReadFile(path + "-owed"); err != nil || len(lineBytes(content)) > 0 || len(content) < owedSize {
		t.Errorf("the file has %q, %d bytes, %v", lineBytes(content), len(content), err)
	}
}

// fillRest fills the rest of a disk that had no room for a large row, so that a small one does not fit either.
func fillRest(t *testing.T, dir string, l *Log) {
	t.Helper()
	takeAll(t, dir)
	for err := error(nil); err == nil; {
		_, err = l.Append(t.Context(), Entry{Kind: "x"})
	}
}

// TestOwedInMemory: without a file, owed rows are in memory, and their loss is reported.
func TestOwedInMemory(t *testing.T) {
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.owedPath(), 0o700); err != nil {
		t.Fatal(err)
	}
	refuse := func(statement string) {
		if _, err := l.active.Load().db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	const nothing = "CREATE TRIGGER zz BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'not now'); END"
	refuse(nothing)
	if _, err := l.Append(t.Context(), gone("one")); !errors.As(err, new(*Owed)) ||
		!strings.Contains(err.Error(), "unless this process ends") {
		t.Errorf("got %v", err)
	}
	refuse("DROP TRIGGER zz")
	if err := l.writeOwed(t.Context()); err != nil {
		t.Error(err)
	}
	wantLate(t, l, "one")
	refuse(nothing)
	if _, err := l.Append(t.Context(), gone("two")); err == nil {
		t.Error("it is written")
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "1 rows") {
		t.Errorf("got %v", err)
	}
}

// TestOwedTorn: a truncated line is not a row, and those before it are.
func TestOwedTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	content := make([]byte, owedSize)
	copy(content, `{"kind":"token.revoked","run":"one","namespace":"default","data":{"name":"ci"},"at":"2026-01-02T03:04:05Z"}`+"\n"+
		`{"kind":"x","data":null}`+"\n"+`{"kind":"token.rev`)
	if err := os.WriteFile(path+"-owed", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Owe(path, errClosed, gone("two")); !errors.As(err, new(*Owed)) {
		t.Errorf("got %v", err)
	}
	l := openSigned(t, path, signing(10))
	hosttest.Until(t, "they are written", func() bool { return len(collect(t, l, Filter{Kinds: []string{"token.revoked"}})) == 2 })
	wantLate(t, l, "one")
	wantLate(t, l, "two")
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestOwedOnce: if a process dies between writing the owed rows and clearing their file, no row is written twice,
// and numbers stay unchanged.
func TestOwedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	entries := []Entry{gone("one"), gone("two")}
	entries[1].Data = map[string]any{"bytes": int64(1)<<53 + 1}
	if err := Owe(path, errClosed, entries...); !errors.As(err, new(*Owed)) {
		t.Fatalf("got %v", err)
	}
	owed, err := os.ReadFile(path + "-owed")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := os.WriteFile(path+"-owed", owed, 0o600); err != nil {
			t.Fatal(err)
		}
		l := openSigned(t, path, signing(10))
		if err := l.Close(); err != nil { // writes it
			t.Error(err)
		}
	}
	l := openSigned(t, path, signing(10))
	wantLate(t, l, "one")
	if rows := collect(t, l, Filter{Run: "two"}); len(rows) != 1 || !strings.Contains(string(rows[0].Data), `"bytes":9007199254740993`) {
		t.Errorf("got %v", rows)
	}
	info, err := os.Stat(path + "-owed")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
}

// TestOweLate: a log that can't be opened owes late entries, and no others.
func TestOweLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	if err := Owe(path, errClosed, gone("one"), Entry{Kind: "x"}); !errors.Is(err, errClosed) || errors.As(err, new(*Owed)) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path + "-owed"); err == nil {
		t.Error("it is owed")
	}
}
