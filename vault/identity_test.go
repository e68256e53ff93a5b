package vault

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
)

// TestTroubleWithTheKey: a problem with the key is reported, and nothing is lost by it: after its repair, all
// secrets are readable.
func TestTroubleWithTheKey(t *testing.T) {
	s := sealKeys(t, "KEY")
	good, err := os.ReadFile(s.keyFilePath())
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Fields(string(good[bytes.Index(good, []byte("AGE-SECRET")):]))[0]
	for name, c := range map[string]struct {
		content string // "" removes the file
		says    string
	}{
		"missing":      {"", "is missing"},
		"another":      {other.String(), "another key"},
		"blank":        {"\n", "not one key"},
		"torn":         {string(good[:len(good)-20]), "not one key"},
		"only comment": {"# nothing\n", "not one key"},
		"two":          {string(good) + other.String(), "not one key"},
		"foreign":      {"ssh-ed25519 AAAA" + secret, "not one key"},
		"endless":      {strings.Repeat("# comment\n", 10_000) + string(good), "not one key"},
	} {
		t.Run(name, func(t *testing.T) {
			defer restore(t, s, good)
			os.Remove(s.keyFilePath())
			if c.content != "" {
				if err := os.WriteFile(s.keyFilePath(), []byte(c.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := directoryFiles(t, s)
			_, _, getErr := s.Get(t.Context(), "default", "KEY")
			addErr := s.Add(t.Context(), Entry{Namespace: "default", Key: "NEXT"}, []byte("value"), false)
			replaceErr := s.Add(t.Context(), Entry{Namespace: "default", Key: "KEY"}, []byte("value"), true)
			entries, problems, err := s.List(t.Context(), "")
			if len(entries) != 1 || entries[0].Key != "KEY" || len(problems) != 1 || err != nil {
				t.Errorf("List: %v, %v, %v", entries, problems, err)
			}
			for _, err := range append(problems, getErr, addErr, replaceErr) {
				if err == nil || errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), c.says) ||
					!strings.Contains(err.Error(), "vault.key") || strings.Contains(err.Error(), secret[20:30]) {
					t.Errorf("got %v", err)
				}
			}
			if diff := cmp.Diff(before, directoryFiles(t, s)); diff != "" {
				t.Error(diff)
			}
		})
	}
	os.Remove(s.keyFilePath())
	if err := s.Delete(t.Context(), "default", "KEY"); err != nil {
		t.Errorf("delete without the key: %v", err)
	}
	if err := s.Add(t.Context(), Entry{Namespace: "default", Key: "KEY"}, valueOf("KEY"), false); err != nil {
		t.Errorf("add to a vault without secrets and without a key: %v", err)
	}
	wantValue(t, s, "KEY")
}

func restore(t *testing.T, s *Sealed, key []byte) {
	t.Helper()
	os.Remove(s.keyFilePath())
	if err := os.WriteFile(s.keyFilePath(), key, 0o600); err != nil {
		t.Fatal(err)
	}
	wantValue(t, s, "KEY")
}

// TestKeyIsAnAgeIdentity: the age program can read the key file, so a vault can be opened without this program.
func TestKeyIsAnAgeIdentity(t *testing.T) {
	s := sealKeys(t, "KEY")
	f, err := os.Open(s.keyFilePath())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if ids, err := age.ParseIdentities(f); len(ids) != 1 || err != nil {
		t.Errorf("got %d identities, %v", len(ids), err)
	}
}
