package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEmptyLease(t *testing.T) {
	empty, err := New().Lease(context.Background(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var none *Vault
	nilVault, err := none.Lease(context.Background(), "default", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*Lease{"nil": nil, "zero": {}, "no keys": empty, "nil vault": nilVault} {
		if l.Names() != nil || l.Env() != nil || l.Unredacted() != nil {
			t.Errorf("%s: has names", name)
		}
		check(t, l, "any text", "any text")
		l.Close()
		check(t, l, "any text", "any text")
	}
}

func TestNamesAndEnv(t *testing.T) {
	m := NewMemory()
	m.Set("a", "ONE", []byte("first value"))
	m.Set("a", "two", []byte("line\nline\n"))
	l, err := New(m).Lease(context.Background(), "a", []string{"two", "ONE", "two"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if diff := cmp.Diff([]string{"two", "ONE"}, l.Names()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"two=line\nline\n", "ONE=first value"}, l.Env()); diff != "" {
		t.Error(diff)
	}
}

func TestUnredacted(t *testing.T) {
	values := []string{"1", "true", "12345", "x\n", "password", "Production", "--------", "REDACTED", "      a     ",
		"123456", "hunter2", "pass word"}
	l := lease(t, values...)
	want := []string{"S0", "S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8"}
	if diff := cmp.Diff(want, l.Unredacted()); diff != "" {
		t.Error(diff)
	}
	check(t, l, "password: true, 1, -------- 123456 hunter2", "password: true, 1, -------- "+Mark+" "+Mark)
	if len(l.Env()) != len(values) {
		t.Errorf("leased %d of %d", len(l.Env()), len(values))
	}
}

func TestLines(t *testing.T) {
	frame := func(s string) string { return "-----" + s + " TEST " + "KEY-----" }
	body := []string{"TUlJRXZnSUJBREFOQmdrcWhraUc5dzBC", "QVFFRkFBU0NCS2d3Z2dTa0FnRUFBb0lC", "c2hvcnQ"}
	key := frame("BEGIN") + "\n" + strings.Join(body, "\n") + "\n" + frame("END") + "\n"
	for name, value := range map[string]string{
		"lines": key, "crlf": strings.ReplaceAll(key, "\n", "\r\n"), "written out": strings.ReplaceAll(key, "\n", `\n`),
	} {
		t.Run(name, func(t *testing.T) {
			l := lease(t, value)
			check(t, l, "> "+body[1]+"\n", "> "+Mark+"\n")
			check(t, l, frame("BEGIN")+" "+body[2], frame("BEGIN")+" "+body[2])
			if got := l.Redact(value); strings.TrimSuffix(strings.TrimSpace(got), `\n`) != Mark {
				t.Errorf("whole: %q", got)
			}
			indented := "  " + strings.ReplaceAll(key, "\n", "\n  ")
			got := l.Redact(indented)
			for _, line := range body[:2] {
				if strings.Contains(got, line) {
					t.Errorf("indented: %q", got)
				}
			}
			if got := l.Redact(spellBase64(value, 1)); !strings.Contains(got, Mark) || len(got) > 10+len(Mark) {
				t.Errorf("base64: %q", got)
			}
		})
	}
	check(t, lease(t, "line-end-cut\n"), "<line-end-cut>", "<"+Mark+">")
}

// TestFrameOfKey: if lines of a key are removed, so is the frame next to them, however the line breaks are written.
func TestFrameOfKey(t *testing.T) {
	frame := func(s string) string { return "-----" + s + " TEST " + "KEY-----" }
	body := []string{"TUlJRXZnSUJBREFOQmdrcWhraUc5dzBC", "QVFFRkFBU0NCS2d3Z2dTa0FnRUFBb0lC", "c2hvcnQ"}
	lines := append(append([]string{frame("BEGIN")}, body...), frame("END"))
	for _, leased := range []string{"\n", `\n`, "\r\n"} {
		l := lease(t, strings.Join(lines, leased)+leased)
		for _, end := range []string{"\n", "\r\n", "\n    ", `\n`, `\\n`, `\\\\n`, `\r\n`, `\\r\\n`} {
			check(t, l, "<"+strings.Join(lines, end)+">", "<"+Mark+">")
			check(t, l, "<"+strings.Join(lines[:2], end)+">", "<"+Mark+">")
			check(t, l, "<"+strings.Join(lines[3:], end)+">", "<"+Mark+">")
			for _, lone := range []string{lines[0] + end + "other", "other" + end + lines[4], lines[0] + end + lines[4]} {
				check(t, l, "<"+lone+">", "<"+lone+">")
			}
		}
	}
}

// unmapped returns a lease of a value in ordinary memory, which can be inspected after Close.
func unmapped(value string) *Lease {
	full := &pages{}
	full.mapped.Store(maxMapped)
	return newLease([]secret{{name: "KEY", value: []byte(value)}}, full)
}

func TestClose(t *testing.T) {
	l := unmapped("hunter2-hunter2")
	l.Redact("text") // builds the index
	in := l.inner()
	value, part := in.secrets[0].value, in.matcher.all.words[0].symbols
	var out bytes.Buffer
	w := l.Writer(&out)
	io.WriteString(w, "text hunter2-")
	l.Close()
	l.Close()
	if !bytes.Equal(value, make([]byte, len(value))) || !bytes.Equal(part, make([]byte, len(part))) {
		t.Error("the value is still in memory")
	}
	held := w.text().held
	if string(held) != "hunter2-" {
		t.Errorf("%q is held", held)
	}
	if _, err := io.WriteString(w, "hunter2"); !errors.Is(err, ErrClosed) {
		t.Errorf("Write to a closed lease: %v", err)
	}
	if err := w.Close(); !errors.Is(err, ErrClosed) || out.String() != "text " {
		t.Errorf("Close of the redactor: %v, %q is out", err, out.String())
	}
	if !bytes.Equal(held, make([]byte, len(held))) {
		t.Errorf("%q is still in memory", held)
	}
	if _, err := l.ContainsSecret(strings.NewReader("hunter2-hunter2")); !errors.Is(err, ErrClosed) {
		t.Errorf("Find: %v", err)
	}
	if got := l.Redact("text"); got != "text" || l.Env() != nil {
		t.Errorf("Redact = %q, Env = %q", got, l.Env())
	}
}

// TestCloseBeforeText: the parts to search for are copies, and the index is built only for the first text.
func TestCloseBeforeText(t *testing.T) {
	l := unmapped("hunter2-hunter2")
	part := l.inner().matcher.values[0]
	l.Close()
	if !bytes.Equal(part, make([]byte, len(part))) {
		t.Error("the value is still in memory")
	}
}

// TestFailedLeaseWipes: a lease that fails halfway leaves nothing behind.
func TestFailedLeaseWipes(t *testing.T) {
	s := &lastValue{NewMemory(), nil}
	s.Set("a", "KEY", []byte("hunter2-hunter2"))
	if _, err := New(s).Lease(context.Background(), "a", []string{"KEY", "OTHER"}); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if got := s.last; len(got) == 0 || !bytes.Equal(got, make([]byte, len(got))) {
		t.Errorf("%q is still in memory", got)
	}
}

// lastValue records the last value that it returned.
type lastValue struct {
	*Memory
	last []byte
}

func (k *lastValue) Get(ctx context.Context, namespace, key string) ([]byte, Binding, error) {
	value, to, err := k.Memory.Get(ctx, namespace, key)
	if err == nil {
		k.last = value
	}
	return value, to, err
}

func TestManyAtOnce(t *testing.T) {
	l := lease(t, randomSecrets()...)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			w := l.Writer(io.Discard)
			for i := range 1000 {
				io.WriteString(w, "text")
				l.Redact("text")
				if i == 500 {
					l.Close()
				}
			}
		})
	}
	all.Wait()
}

// TestNothingShowsAValue: no value of this package's types appears in any printed form.
func TestNothingShowsAValue(t *testing.T) {
	const value = "Zq9-hunter2"
	m := NewMemory()
	m.Set("a", "KEY", []byte(value))
	sealed, bound := NewSealed(t.TempDir(), nil), Entry{Namespace: "a", Key: "BOUND", Binding: Binding{Hosts: []string{"a.example"}}}
	if err := sealed.Add(t.Context(), bound, []byte(value), false); err != nil {
		t.Fatal(err)
	}
	entries, _, err := sealed.List(t.Context(), "")
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	id, err := sealed.createIdentity() // the existing one
	if err != nil {
		t.Fatal(err)
	}
	v := New(m, Environment(), sealed)
	l, err := v.Lease(context.Background(), "a", []string{"KEY", "BOUND"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := l.Writer(io.Discard)
	io.WriteString(w, "x "+value+" "+value[:9])
	var log bytes.Buffer
	text, structured := slog.New(slog.NewTextHandler(&log, nil)), slog.New(slog.NewJSONHandler(&log, nil))
	for _, x := range []any{v, *v, m, l, *l, w, *w, []any{l}, map[string]any{"x": w}, struct{ L *Lease }{l}, Leases{l},
		sealed, *sealed, entries, Change{Kind: Added, Entry: entries[0]}, l.Bound(), l.Bound()[0], id} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
			fmt.Fprintf(&log, format+"\n", x)
		}
		encoded, err := json.Marshal(x)
		fmt.Fprintln(&log, string(encoded), err)
		text.Info("x", "x", x)
		structured.Info("x", "x", x)
	}
	_, err = v.Lease(context.Background(), "a", []string{"KEY", "OTHER"})
	fmt.Fprintln(&log, err, m.Set("a", "KEY", append([]byte(value), 0)), m.Set("a b", "KEY", []byte(value)),
		m.Set("a", "KEY="+value, nil), m.Set("a", value, nil))
	_, err = v.Lease(context.Background(), "a", []string{"KEY=" + value})
	fmt.Fprintln(&log, err)
	fmt.Fprintln(&log, sealed.Add(t.Context(), bound, []byte(value), false))
	got := log.String()
	if key := id.key().String(); strings.Contains(got, key[20:]) {
		t.Error("the key of the vault shows")
	}
	if !strings.Contains(got, l.Bound()[0].Placeholder) {
		t.Error("the placeholder does not show, which it may: a bound secret was not tried")
	}
	for _, form := range []string{"%s", "%x", "%X", "%d", "%#v"} {
		printed := strings.Trim(fmt.Sprintf(form, []byte(value[:6])), "[]")
		printed = strings.TrimSuffix(strings.TrimPrefix(printed, "[]byte{"), "}")
		if i := strings.Index(got, printed); i >= 0 {
			t.Errorf("%q shows in ...%s...", printed, got[max(0, i-80):min(len(got), i+80)])
		}
	}
	if slices.Contains(strings.Fields(got), "hunter2") {
		t.Error("a part shows")
	}
}
