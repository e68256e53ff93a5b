package vault

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestNothingOnTheDisk: the files on disk show neither a value, in any encoding, nor the hosts that it is bound to,
// also of replaced and deleted secrets.
func TestNothingOnTheDisk(t *testing.T) {
	s, ctx := sealKeys(t, "KEPT", "REPLACED", "DELETED"), t.Context()
	big := strings.Repeat("0123456789", 2000) + "the end"
	rows, err := rowsOf(ctx, s)
	if err != nil || len(rows) != 3 {
		t.Fatal(rows, err)
	}
	e := Entry{Namespace: "default", Key: "BIG", Binding: Binding{Hosts: []string{"api.example.com"}, Body: true}}
	for _, err := range []error{s.Add(ctx, e, []byte(big), false), s.Add(ctx, Entry{Namespace: "default", Key: "REPLACED"}, []byte("another"),
		true),
		s.Delete(ctx, "default", "DELETED")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	secrets := []string{string(valueOf("KEPT")), string(valueOf("REPLACED")), string(valueOf("DELETED")), big[len(big)-100:],
		"api.example.com"}
	l := lease(t, secrets...)
	for name, text := range directoryFiles(t, s) {
		if found, err := l.ContainsSecret(strings.NewReader(text)); found || err != nil {
			t.Errorf("%s: found %v, %v", name, found, err)
		}
		for _, v := range secrets {
			forms := []string{v, hex.EncodeToString([]byte(v)), base64.StdEncoding.EncodeToString([]byte(v)), spellBase64(v, 1), spellBase64(v, 2)}
			if slices.ContainsFunc(forms, func(f string) bool { return strings.Contains(text, f) }) {
				t.Errorf("%s shows %q", name, v)
			}
		}
		if name != "vault.db" {
			continue
		}
		if !strings.Contains(text, "REPLACED") {
			t.Error("the names are not there: the wrong file was searched")
		}
		for _, r := range rows { // old rows, for an attacker who gets the key later
			if present := strings.Contains(text, string(r.sealed)); present != (r.key == "KEPT") {
				t.Errorf("%s, as it was sealed, is there: %v", r.key, present)
			}
		}
	}
}

func rowsOf(ctx context.Context, s *Sealed) (rows []row, err error) {
	err = s.readDatabase(ctx, func(db *sql.DB) (err error) {
		rows, err = selectRows(ctx, db, "")
		return err
	})
	return rows, err
}

// TestTampered: every change of a secret by an attacker with access to the database is noticed.
func TestTampered(t *testing.T) {
	for name, statement := range map[string]string{
		"another's value":       "UPDATE secret SET sealed = (SELECT sealed FROM secret WHERE key = 'OTHER') WHERE key = 'KEY'",
		"another name":          "UPDATE OR REPLACE secret SET key = 'KEY' WHERE key = 'OTHER'",
		"another namespace":     "UPDATE OR REPLACE secret SET namespace = 'default' WHERE namespace = 'else'",
		"another key":           "UPDATE secret SET identity = 'ff' WHERE key = 'KEY'",
		"empty":                 "UPDATE secret SET sealed = x'' WHERE key = 'KEY'",
		"half":                  "UPDATE secret SET sealed = substr(sealed, 1, length(sealed) / 2) WHERE key = 'KEY'",
		"one byte less":         "UPDATE secret SET sealed = substr(sealed, 1, length(sealed) - 1) WHERE key = 'KEY'",
		"one byte more":         "UPDATE secret SET sealed = CAST(sealed || x'00' AS BLOB) WHERE key = 'KEY'",
		"sealed by somebody":    "UPDATE secret SET sealed = ?1 WHERE key = 'KEY'",
		"the table":             "ALTER TABLE secret RENAME TO gone",
		"the format":            "PRAGMA user_version = 2",
		"the kind":              "PRAGMA application_id = 1",
		"the names, in a case":  "UPDATE secret SET key = 'key' WHERE key = 'KEY' AND namespace = 'default'",
		"the namespace, a case": "UPDATE secret SET namespace = 'DEFAULT' WHERE key = 'KEY' AND namespace = 'default'",
	} {
		t.Run(name, func(t *testing.T) {
			s := sealKeys(t, "KEY", "OTHER")
			if err := s.Add(t.Context(), Entry{Namespace: "else", Key: "KEY"}, []byte("of else"), false); err != nil {
				t.Fatal(err)
			}
			var args []any
			if strings.Contains(statement, "?1") {
				foreign := sealKeys(t)
				id, err := foreign.createIdentity()
				if err != nil {
					t.Fatal(err)
				}
				sealed, err := id.seal(Entry{Namespace: "default", Key: "KEY"}, valueOf("KEY"))
				if err != nil {
					t.Fatal(err)
				}
				args = append(args, sealed)
			}
			tamper(t, s, statement, args...)
			for _, at := range []secretName{{"default", "KEY"}, {"default", "key"}, {"DEFAULT", "KEY"}} {
				value, to, err := s.Get(t.Context(), at.namespace, at.key)
				if err == nil || value != nil || to.isBound() {
					t.Errorf("%v: got %q, %v", at, value, err)
				}
				moved := strings.Contains(name, "a case") // then its name has changed
				if at.key == "KEY" && at.namespace == "default" && errors.Is(err, ErrNotFound) && !moved {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

// TestEachByteCounts: a change of any sealed byte is detected.
func TestEachByteCounts(t *testing.T) {
	id, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := id.seal(Entry{Namespace: "default", Key: "KEY"}, valueOf("KEY"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		sealed[i] ^= 1
		if _, value, err := id.open(row{namespace: "default", key: "KEY", sealed: sealed}); err == nil || value != nil {
			t.Errorf("byte %d: %q, %v", i, value, err)
		}
		sealed[i] ^= 1
	}
	if _, value, err := id.open(row{namespace: "default", key: "KEY", sealed: sealed}); err != nil || value == nil {
		t.Errorf("unchanged: %v", err)
	}
}

func TestTornDatabase(t *testing.T) {
	s := sealKeys(t, "KEY")
	whole, err := os.ReadFile(s.databasePath())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": {}, "text": []byte("this is not a database, however long it is read"), "half a page": whole[:100],
		"a page": whole[:4096], "almost all": whole[:len(whole)-1], "zeros": make([]byte, len(whole)),
		"torn in the middle": append(bytes.Clone(whole[:len(whole)/2]), make([]byte, len(whole)/2)...),
	} {
		if err := os.WriteFile(s.databasePath(), content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, getErr := s.Get(t.Context(), "default", "KEY")
		_, _, listErr := s.List(t.Context(), "")
		addErr := s.Add(t.Context(), Entry{Namespace: "default", Key: "NEXT"}, []byte("value"), false)
		for _, err := range []error{getErr, listErr, addErr} {
			if err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "vault") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if now, err := os.ReadFile(s.databasePath()); err != nil || !bytes.Equal(now, content) {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
	if err := os.WriteFile(s.databasePath(), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "KEY")
}

// TestNothingIsAddedToDamage: a database that is damaged elsewhere is not written to.
func TestNothingIsAddedToDamage(t *testing.T) {
	s := sealKeys(t, "KEY", "OTHER")
	whole, err := os.ReadFile(s.databasePath())
	if err != nil {
		t.Fatal(err)
	}
	inIndex := bytes.LastIndex(whole, []byte("defaultOTHER"))
	whole[inIndex] = 'D'
	if err := os.WriteFile(s.databasePath(), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	added := s.Add(t.Context(), Entry{Namespace: "default", Key: "NEXT"}, []byte("value"), false)
	for _, err := range []error{added, s.Delete(t.Context(), "default", "KEY")} {
		if err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("got %v", err)
		}
	}
	wantValue(t, s, "KEY")
}
