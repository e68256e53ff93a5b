package signer

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	signednote "golang.org/x/mod/sumdb/note"
)

func openKeys(t testing.TB, dir string) *Keys {
	t.Helper()
	keys, err := OpenKeys(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func current(t testing.TB, keys *Keys) *Key {
	t.Helper()
	key, err := keys.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newKeys(t testing.TB) (*Keys, *Key) {
	t.Helper()
	keys := openKeys(t, filepath.Join(t.TempDir(), "state", "keys"))
	return keys, current(t, keys)
}

func TestKeyIsMadeOnFirstUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "keys")
	keys := openKeys(t, dir)
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory is there before anybody asked for a key")
	}
	if all, err := filepath.Glob(keys.publicKeyPath("*")); err != nil || len(all) != 0 {
		t.Errorf("got %v, %v", all, err)
	}
	began := time.Now().Truncate(time.Second)
	key := current(t, keys)
	if again := current(t, openKeys(t, dir)); again.ID() != key.ID() {
		t.Errorf("got %s, and then %s", key.ID(), again.ID())
	}
	block, _ := pem.Decode(key.PEM())
	if sum := sha256.Sum256(block.Bytes); key.ID() != hex.EncodeToString(sum[:]) {
		t.Errorf("the id %s is not the SHA-256 of the public key", key.ID())
	}
	public, err := keys.PublicKeyByID(key.ID())
	if err != nil || !public.Ed25519().Equal(key.Public()) || public.Created.Before(began) || !public.Created.Equal(key.Created) {
		t.Errorf("got %v, %v", public, err)
	}
	sig, err := key.Sign(nil, []byte("message"), &ed25519.Options{})
	if err != nil || !ed25519.Verify(public.Ed25519(), []byte("message"), sig) {
		t.Errorf("the signature is not good: %v", err)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "signing.key"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	_, key := newKeys(t)
	seed := key.private().Seed()[:8]
	encoded, _ := json.Marshal(key)
	text := fmt.Sprintf("%v %+v %#v %s", key, *key, key, encoded)
	for _, form := range []string{
		strings.Trim(fmt.Sprint(seed), "[]"), fmt.Sprintf("%x", seed), base64.StdEncoding.EncodeToString(seed)[:10],
		strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", seed), "[]byte"), "{}"),
	} {
		if strings.Contains(text, form) {
			t.Error("printing a key shows its secret")
		}
	}
}

func TestRotate(t *testing.T) {
	keys, first := newKeys(t)
	elsewhere := openKeys(t, keys.Dir())
	current(t, elsewhere)
	secret, err := os.ReadFile(keys.privateKeyPath())
	if err != nil {
		t.Fatal(err)
	}
	trust := NewTrust(first.PublicKey)
	second, one, err := keys.Rotate(t.Context())
	if err != nil || second.ID() == first.ID() || current(t, keys).ID() != second.ID() {
		t.Fatalf("got %v, %v", second, err)
	}
	if got := current(t, elsewhere); got.ID() != second.ID() {
		t.Error("another user of the directory goes on signing with the old key")
	}
	third, two, err := elsewhere.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range tree(t, keys.Dir()) {
		if bytes.Contains([]byte(text), secret[30:60]) {
			t.Errorf("%s still has the first private key", name)
		}
	}
	all, err := filepath.Glob(keys.publicKeyPath("*"))
	if err != nil || len(all) != 3 {
		t.Errorf("got %v, %v", all, err)
	}
	for _, k := range []*Key{first, second, third} {
		if _, err := keys.PublicKeyByID(k.ID()); err != nil {
			t.Error(err)
		}
	}
	// With the first key alone, the statements lead to the last key, in any order.
	var statements [][]byte
	for _, file := range []string{two, one} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		statements = append(statements, text)
	}
	if err := NewTrust(first.PublicKey).ApplyRotations(statements[0]); err == nil {
		t.Error("a statement by a key that nobody knows was believed")
	}
	if err := trust.ApplyRotations(statements...); err != nil || len(trust.Keys()) != 3 {
		t.Errorf("got %d keys, %v", len(trust.Keys()), err)
	}
	public := filepath.Join(t.TempDir(), "first.pem")
	if err := os.WriteFile(public, first.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	read, err := ReadTrust(two, public, one)
	if err != nil || len(read.Keys()) != 3 {
		t.Errorf("got %v, %v", read, err)
	}
}

// TestFalseRotation: a statement must name its own content and signers.
func TestFalseRotation(t *testing.T) {
	_, old := newKeys(t)
	_, fresh := newKeys(t)
	_, other := newKeys(t)
	make := func(by *Key, about string, r rotation, kind string) []byte {
		e, err := signStatement(statement{StatementType, []subject{newSubject("key", about)}, kind, r}, by)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(e)
		return text
	}
	good := rotation{Old: old.ID(), New: fresh.ID(), PublicKey: string(fresh.PEM()), At: time.Now()}
	with := func(change func(*rotation)) rotation {
		r := good
		change(&r)
		return r
	}
	if err := NewTrust(old.PublicKey).ApplyRotations(make(old, fresh.ID(), good, RotationType)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"by the new key":      make(fresh, fresh.ID(), good, RotationType),
		"by another":          make(other, fresh.ID(), good, RotationType),
		"about another":       make(old, other.ID(), good, RotationType),
		"holds another":       make(old, fresh.ID(), with(func(r *rotation) { r.PublicKey = string(other.PEM()) }), RotationType),
		"of another":          make(old, fresh.ID(), with(func(r *rotation) { r.Old = other.ID() }), RotationType),
		"of another kind":     make(old, fresh.ID(), good, ReceiptType),
		"holds a private key": make(old, fresh.ID(), with(func(r *rotation) { r.PublicKey = "x" }), RotationType),
	} {
		trust := NewTrust(old.PublicKey)
		if err := trust.ApplyRotations(text); err == nil || len(trust.Keys()) != 1 {
			t.Errorf("%s was believed", name)
		}
	}
}

func TestRecord(t *testing.T) {
	var seen []Change
	refuse := error(nil)
	dir := filepath.Join(t.TempDir(), "keys")
	keys, err := OpenKeys(dir, func(_ context.Context, c Change) error {
		if k, err := openKeys(t, dir).loadKey(); err == nil && k.ID() == c.ID {
			t.Error("the key is there before its row")
		}
		seen = append(seen, c)
		return refuse
	})
	if err != nil {
		t.Fatal(err)
	}
	refuse = errors.New("the log is full")
	if _, err := keys.Current(t.Context()); !errors.Is(err, refuse) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(keys.privateKeyPath()); err == nil {
		t.Error("a key was made that is not in the log")
	}
	seen, refuse = nil, nil
	first := current(t, keys)
	current(t, keys)
	refuse = errors.New("the log is full")
	if _, _, err := keys.Rotate(t.Context()); !errors.Is(err, refuse) || current(t, keys).ID() != first.ID() {
		t.Errorf("got %v", err)
	}
	if left := tree(t, dir); len(left) != 4 {
		t.Errorf("left: %v", left)
	}
	refuse = nil
	second, _, err := keys.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{{Kind: Created, ID: first.ID()}, {}, {Kind: Rotated, ID: second.ID(), Old: first.ID()}}
	if len(seen) != 3 || seen[0] != want[0] || seen[2] != want[2] {
		t.Errorf("got %v", seen)
	}
}

// TestBadKeyFile: a bad file in place of the key is neither used nor overwritten.
func TestBadKeyFile(t *testing.T) {
	_, good := newKeys(t)
	whole, err := good.privatePEM()
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	cases := map[string]struct {
		content []byte
		want    string
	}{
		"empty":             {nil, "is empty"},
		"blank":             {[]byte("\n\n"), "is empty"},
		"text":              {[]byte("hello"), "is not a PEM file"},
		"another kind":      {block("PRIVATE KEY", der), "another kind than Ed25519"},
		"a public key":      {good.PEM(), "holds no private key"},
		"of openssh":        {block("OPENSSH "+"PRIVATE KEY", []byte("x")), "holds a openssh private key"},
		"two keys":          {slices.Concat(whole, whole), "more than one key"},
		"rubbish in it":     {block("PRIVATE KEY", []byte("rubbish")), "holds no private key"},
		"cut in the middle": {whole[:len(whole)/2], "is not a PEM file, or was cut off"},
		"cut at the end":    {whole[:len(whole)-10], "is not a PEM file, or was cut off"},
		"zeros":             {make([]byte, len(whole)), "is not a PEM file"},
		"huge":              {bytes.Repeat([]byte("x"), 1<<20), "too large"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			keys := openKeys(t, t.TempDir())
			if err := os.WriteFile(keys.privateKeyPath(), c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, currentErr := keys.Current(t.Context())
			_, _, rotateErr := keys.Rotate(t.Context())
			for _, err := range []error{currentErr, rotateErr} {
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "signing.key") {
					t.Errorf("got %v, want %q", err, c.want)
				}
			}
			if now, err := os.ReadFile(keys.privateKeyPath()); err != nil || !bytes.Equal(now, c.content) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

// TestLostKey: a lost key is not silently replaced by a new one.
func TestLostKey(t *testing.T) {
	keys, first := newKeys(t)
	if err := os.Remove(keys.privateKeyPath()); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Current(t.Context()); err == nil || !strings.Contains(err.Error(), "key rotate") {
		t.Errorf("got %v", err)
	}
	second, statement, err := keys.Rotate(t.Context())
	if err != nil || statement != "" || second.ID() == first.ID() {
		t.Errorf("got %v, %q, %v", second, statement, err)
	}
	if _, err := keys.PublicKeyByID(first.ID()); err != nil {
		t.Error(err)
	}
}

func TestBadPublicFile(t *testing.T) {
	keys, key := newKeys(t)
	_, other := newKeys(t)
	for name, content := range map[string][]byte{"another": other.PEM(), "empty": {}, "cut": key.PEM()[:50], "private": mustPEM(t, key)} {
		if err := os.WriteFile(keys.publicKeyPath(key.ID()), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := keys.PublicKeyByID(key.ID()); err == nil || errors.Is(err, errUnknownKey) {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
		if _, err := openKeys(t, keys.Dir()).Current(t.Context()); err == nil {
			t.Errorf("%s: the key signs, and nobody could verify it", name)
		}
	}
	for _, id := range []string{"", "x", "../signing", strings.Repeat("0", 64), strings.ToUpper(key.ID())} {
		if _, err := keys.PublicKeyByID(id); !errors.Is(err, errUnknownKey) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func mustPEM(t *testing.T, key *Key) []byte {
	t.Helper()
	text, err := key.privatePEM()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestNote: the verifier key for readers of signed notes accepts the key's signatures.
func TestNote(t *testing.T) {
	_, key := newKeys(t)
	text, err := key.NoteVerifier("example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signednote.NewVerifier(text)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := key.Sign(nil, []byte("a note\n"), crypto.Hash(0))
	if err != nil || !verifier.Verify([]byte("a note\n"), signature) || verifier.Verify([]byte("another\n"), signature) {
		t.Errorf("%s does not check what the key signed: %v", text, err)
	}
	if text, err := (PublicKey{}).NoteVerifier("example.com/log"); err == nil {
		t.Errorf("no key is %s", text)
	}
}
