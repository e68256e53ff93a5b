package signer

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func trusted(t *testing.T, k *Keys) *Trust {
	t.Helper()
	trust, err := k.Trust()
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

func writeBytes(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// datedReceipt is a receipt that a key signed, of a run that ended at a time, as the key says.
func datedReceipt(t *testing.T, key *Key, at time.Time) []byte {
	t.Helper()
	r := sampleReceipt()
	r.Began, r.Finished = at.Add(-time.Second), at
	return envelope(t, r, key)
}

func wantReceipt(t *testing.T, text []byte, trust *Trust, why string) {
	t.Helper()
	switch _, problems := VerifyReceipt(text, trust); {
	case why == "" && len(problems) > 0:
		t.Errorf("got %v", problems)
	case why != "" && (len(problems) != 1 || problems[0].Kind != BadKey || !strings.Contains(problems[0].Why, why)):
		t.Errorf("got %v, want %q", problems, why)
	}
}

// TestReplacedKeyEnds: a replaced key signs nothing with a later date, for its own machine and for machines that
// follow its statement.
func TestReplacedKeyEnds(t *testing.T) {
	keys, old := newKeys(t)
	_, statement, err := keys.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := current(t, keys)
	public := filepath.Join(t.TempDir(), "old.pub")
	writeBytes(t, public, old.PEM())
	follower, err := ReadTrust(public, statement)
	if err != nil {
		t.Fatal(err)
	}
	dirTrust, err := ReadTrust(keys.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for name, trust := range map[string]*Trust{"own": trusted(t, keys), "follower": follower, "directory": dirTrust} {
		t.Run(name, func(t *testing.T) {
			wantReceipt(t, datedReceipt(t, old, time.Now().Add(-time.Hour)), trust, "")
			wantReceipt(t, datedReceipt(t, old, time.Now().Add(time.Hour)), trust, "was replaced at")
			wantReceipt(t, datedReceipt(t, now, time.Now().Add(time.Hour)), trust, "")
		})
	}
	wantReceipt(t, datedReceipt(t, old, time.Now().Add(time.Hour)), NewTrust(old.PublicKey), "") // who knows of no rotation
}

// TestStrangersAreNotTrusted: a file that somebody adds to the directory adds no signer: neither a key alone, nor
// one that calls the machine's key its successor.
func TestStrangersAreNotTrusted(t *testing.T) {
	keys, first := newKeys(t)
	if _, _, err := keys.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, evil := newKeys(t)
	forged, err := marshalStatement(statement{StatementType, []subject{newSubject("key:"+current(t, keys).ID(), current(t, keys).ID())},
		RotationType,
		rotation{Old: evil.ID(), New: current(t, keys).ID(), PublicKey: string(current(t, keys).PEM()), At: time.Now()}}, evil)
	if err != nil {
		t.Fatal(err)
	}
	writeBytes(t, keys.publicKeyPath(evil.ID()), evil.PEM())
	writeBytes(t, keys.rotationPath(evil.ID()), forged)
	trust := trusted(t, keys)
	if _, ok := trust.KeyByID(evil.ID()); ok || len(trust.Keys()) != 2 {
		t.Errorf("got %v", trust.shortIDs())
	}
	if _, ok := trust.KeyByID(first.ID()); !ok {
		t.Error("the key before is not trusted")
	}
	wantReceipt(t, datedReceipt(t, evil, time.Now()), trust, "not among the keys")
	strangers, err := keys.UntrustedFiles(trust)
	if err != nil || len(strangers) != 1 || strangers[0] != keys.publicKeyPath(evil.ID()) {
		t.Errorf("got %v, %v", strangers, err)
	}
	// A statement of the first key that the second has not signed is not a link: anybody who has stolen the first
	// key can make one.
	stolen, err := marshalStatement(statement{StatementType, []subject{newSubject("key:"+evil.ID(), evil.ID())}, RotationType,
		rotation{Old: first.ID(), New: evil.ID(), PublicKey: string(evil.PEM()), At: time.Now()}}, first)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile(keys.rotationPath(first.ID()))
	if err != nil {
		t.Fatal(err)
	}
	if err := NewTrust(first.PublicKey).ApplyRotations(ours, stolen); err == nil || !strings.Contains(err.Error(), "two successors") {
		t.Errorf("one key has two successors: %v", err)
	}
}

// The chain of keys is found whatever the directory is called.
func TestDirectoryIsNoPattern(t *testing.T) {
	keys := openKeys(t, filepath.Join(t.TempDir(), "a[b]*", "keys"))
	current(t, keys)
	if _, _, err := keys.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := trusted(t, keys).Keys(); len(all) != 2 {
		t.Errorf("got %v", all)
	}
	if err := os.Remove(keys.privateKeyPath()); err != nil {
		t.Fatal(err)
	}
	if key, err := openKeys(t, keys.Dir()).Current(t.Context()); err == nil {
		t.Errorf("a key that was lost is replaced by %s in silence", key.ID())
	}
}

// A key whose file is gone is not there, whatever statement about its successor is left.
func TestLostPublicKey(t *testing.T) {
	keys, first := newKeys(t)
	second, _, err := keys.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(keys.publicKeyPath(first.ID())); err != nil {
		t.Fatal(err)
	}
	trust := trusted(t, keys)
	if all := trust.Keys(); len(all) != 1 || all[0].ID() != second.ID() {
		t.Errorf("got %v", all)
	}
	e, err := ParseEnvelope(datedReceipt(t, first, time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	e.Signatures[0].KeyID = "" // so that each key is tried
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	wantReceipt(t, text, trust, "none of those that are known")
}

// A rotation that was killed after it left its statement ends nothing.
func TestBrokenOffRotation(t *testing.T) {
	keys, key := newKeys(t)
	never, err := generateKey()
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.signRotation(never, time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	writeBytes(t, keys.rotationPath(key.ID()), text)
	dirTrust, err := ReadTrust(keys.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, trust := range []*Trust{trusted(t, keys), dirTrust} {
		wantReceipt(t, datedReceipt(t, key, time.Now()), trust, "")
	}
}

func TestRevoke(t *testing.T) {
	var changes []Change
	keys, err := OpenKeys(filepath.Join(t.TempDir(), "keys"), func(_ context.Context, c Change) error {
		changes = append(changes, c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	old := current(t, keys)
	from := time.Now().Add(-time.Hour)
	_, err = keys.Revoke(t.Context(), old.ID(), from, "stolen")
	if err == nil || !strings.Contains(err.Error(), "replace it first") {
		t.Errorf("the key of today was revoked: %v", err)
	}
	_, next, err := keys.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, reason := range map[string]string{old.ID(): "", strings.Repeat("0", 64): "x", "x": "x"} {
		if _, err := keys.Revoke(t.Context(), id, from, reason); err == nil {
			t.Errorf("%s was revoked", id)
		}
	}
	if _, err := keys.Revoke(t.Context(), old.ID(), time.Now().Add(time.Hour), "x"); err == nil {
		t.Error("it was revoked from a time that is yet to come on")
	}
	file, err := keys.Revoke(t.Context(), old.ID(), from, "stolen")
	if err != nil {
		t.Fatal(err)
	}
	if last := changes[len(changes)-1]; last.Kind != Revoked || last.ID != old.ID() || last.Reason != "stolen" ||
		last.From.Sub(from).Abs() > time.Second {
		t.Errorf("the record says %+v", last)
	}
	if _, err := keys.Revoke(t.Context(), old.ID(), time.Now(), "later"); err == nil {
		t.Error("a revocation was taken back in part")
	}
	public := filepath.Join(t.TempDir(), "old.pub")
	writeBytes(t, public, old.PEM())
	follower, err := ReadTrust(file, public, next)
	if err != nil {
		t.Fatal(err)
	}
	dirTrust, err := ReadTrust(keys.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, trust := range []*Trust{trusted(t, keys), follower, dirTrust} {
		wantReceipt(t, datedReceipt(t, old, time.Now().Add(-time.Minute)), trust, "is revoked from")
		wantReceipt(t, datedReceipt(t, old, time.Now().Add(-2*time.Hour)), trust, "")
		if k, _ := trust.KeyByID(old.ID()); k.Reason != "stolen" {
			t.Errorf("got %q", k.Reason)
		}
	}
	if _, err := keys.Revoke(t.Context(), old.ID(), time.Time{}, "since ever"); err != nil {
		t.Fatal(err)
	}
	wantReceipt(t, datedReceipt(t, old, time.Now().Add(-20*365*24*time.Hour)), trusted(t, keys), "is revoked: since ever")
}

// A key revokes those that came before it: not itself, none after it, and none once it was replaced itself.
func TestFalseRevocation(t *testing.T) {
	keys, first := newKeys(t)
	second, _, err := keys.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	third, _, err := keys.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, evil := newKeys(t)
	now := time.Now().Add(time.Minute)
	for name, c := range map[string]struct {
		by  *Key
		of  string
		at  time.Time
		yes bool
	}{
		"by the one of today":           {third, second.ID(), now, true},
		"by the one of today, two ago":  {third, first.ID(), now, true},
		"by itself":                     {first, first.ID(), now, false},
		"by the one before":             {first, second.ID(), now, false},
		"by the one before, back-dated": {first, second.ID(), now.Add(-time.Hour), false},
		"of the one of today":           {second, third.ID(), now, false},
		"by one that was replaced":      {second, first.ID(), now, false},
		"by a stranger":                 {evil, first.ID(), now, false},
		"of a stranger":                 {third, evil.ID(), now, false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := marshalStatement(statement{StatementType, []subject{newSubject("key", c.of)}, RevocationType,
				revocation{Key: c.of, From: time.Unix(0, 0), Reason: "x", At: c.at}}, c.by)
			if err != nil {
				t.Fatal(err)
			}
			if err := trusted(t, keys).applyRevocation(text); (err == nil) != c.yes {
				t.Errorf("got %v", err)
			}
		})
	}
	var e map[string]any
	text, _ := os.ReadFile(keys.rotationPath(first.ID()))
	if err := json.Unmarshal(text, &e); err != nil || len(e["signatures"].([]any)) != 2 {
		t.Errorf("a rotation is not signed by both: %s", text)
	}
}
