package signer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Trust is a set of trusted public keys.
type Trust struct{ keys []PublicKey }

// NewTrust returns a Trust of these keys.
func NewTrust(keys ...PublicKey) *Trust {
	t := &Trust{}
	for _, k := range keys {
		t.addKey(k)
	}
	return t
}

// ReadTrust returns a Trust of the keys in the paths: the PEM file of a public key; all files *.pub and *.pem of a
// directory; and the new keys of rotation statements (*.next) that a trusted key signed, which expires then. It also
// applies revocations (*.revoked).
func ReadTrust(paths ...string) (*Trust, error) {
	t := &Trust{}
	statements := map[string][][]byte{} // by file extension
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("open %q: %w", path, WithoutPaths(err))
		}
		switch ext := filepath.Ext(path); {
		case info.IsDir():
			err = t.addDirectory(path, statements)
		case ext == ".revoked", ext == ".next":
			var text []byte
			text, err = statefile.ReadSmall(path, maxStatement)
			statements[ext] = append(statements[ext], text)
		default:
			var key PublicKey
			key, err = readPublicKey(path)
			t.addKey(key)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := t.ApplyRotations(statements[".next"]...); err != nil {
		return t, err
	}
	for _, text := range statements[".revoked"] {
		if err := t.applyRevocation(text); err != nil {
			return t, fmt.Errorf("the revocation of a key: %w", err)
		}
	}
	return t, nil
}

// addDirectory trusts the keys of a directory, and adds their statements about each other. A statement about a missing
// key is from an interrupted rotation.
func (t *Trust) addDirectory(dir string, statements map[string][][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".pub" && ext != ".pem" {
			continue
		}
		key, err := readPublicKey(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		t.addKey(key)
	}
	for _, k := range t.keys {
		for _, ext := range []string{".next", ".revoked"} {
			text, err := readStatement(filepath.Join(dir, k.id+ext))
			if err != nil {
				return err
			}
			if text == nil {
				continue
			}
			if ext == ".next" {
				if r, _, _, err := openRotation(text, t.KeyByID); err != nil || t.indexOf(r.New) < 0 {
					continue
				}
			}
			statements[ext] = append(statements[ext], text)
		}
	}
	return nil
}

func (t *Trust) addKey(k PublicKey) {
	if _, known := t.KeyByID(k.ID()); !known {
		t.keys = append(t.keys, k)
	}
}

// Keys returns the trusted keys.
func (t *Trust) Keys() []PublicKey { return slices.Clone(t.keys) }

// KeyByID returns the trusted key of an id.
func (t *Trust) KeyByID(id string) (PublicKey, bool) {
	if i := t.indexOf(id); i >= 0 {
		return t.keys[i], true
	}
	return PublicKey{}, false
}

func (t *Trust) indexOf(id string) int {
	return slices.IndexFunc(t.keys, func(k PublicKey) bool { return k.id == id })
}

// maxStatement is the maximum size of a statement about a key, in bytes.
const maxStatement = 64 << 10

// ApplyRotations trusts the new keys of rotation statements, in any order, each signed by an already trusted key, which
// expires then. Other signers, and two successors of one key, are errors. A thief of a key can make such statements,
// too: don't apply those of a stolen key.
func (t *Trust) ApplyRotations(statements ...[]byte) error {
	for rest := statements; len(rest) > 0; {
		var later [][]byte
		var why error
		for _, text := range rest {
			if err := t.applyRotation(text); err != nil {
				later, why = append(later, text), err
			}
		}
		if len(later) == len(rest) {
			return fmt.Errorf("the statement about the next key: %w", why)
		}
		rest = later
	}
	return nil
}

func (t *Trust) applyRotation(text []byte) error {
	r, old, _, err := openRotation(text, t.KeyByID)
	if err != nil {
		return err
	}
	if old.id == "" {
		return fmt.Errorf("key: it is signed by %s, which is not among the keys that are known (%s)", clip(r.Old), t.shortIDs())
	}
	k := &t.keys[t.indexOf(old.id)]
	if k.successor != "" && k.successor != r.New {
		return fmt.Errorf("key %s has named two successors, %s and %s: somebody else has it, too", k.id, k.successor, r.New)
	}
	k.Replaced, k.successor = r.At, r.New
	key, err := parsePublicKey([]byte(r.PublicKey))
	t.addKey(key)
	return err
}

// openRotation parses a statement about a successor. old is the signing key, or zero if find does not know it; byBoth
// says that both keys have signed it. An invalid signature of a known key is an error.
func openRotation(text []byte, find func(id string) (PublicKey, bool)) (r rotation, old PublicKey, byBoth bool, err error) {
	e, err := ParseEnvelope(text)
	if err != nil {
		return r, old, false, fmt.Errorf("it can't be read: %w", err)
	}
	s, err := parseStatement(e.Payload)
	if err == nil && e.PayloadType != PayloadType {
		err = errors.New("it holds something else")
	}
	if err == nil {
		err = s.parsePredicate(RotationType, &r)
	}
	if err != nil {
		return r, old, false, err
	}
	fresh, err := parsePublicKey([]byte(r.PublicKey))
	switch {
	case err != nil:
		return r, old, false, fmt.Errorf("the key in it: %w", err)
	case len(s.subjects) != 1 || s.subjects[0].SHA256 != fresh.id || r.New != fresh.id || r.Old == r.New || r.At.IsZero():
		return r, old, false, errors.New("it names keys other than those that it holds and that signed it")
	}
	if known, ok := find(r.Old); ok {
		if by, _, problems := NewTrust(known).trustedSigner(e); len(problems) > 0 {
			return r, old, false, errors.New(problems[0].String())
		} else {
			old = by
		}
	}
	by, _, problems := NewTrust(fresh).trustedSigner(e)
	return r, old, old.id != "" && len(problems) == 0 && by.id == fresh.id, nil
}

// shortIDs returns the first characters of the keys' ids, for messages.
func (t *Trust) shortIDs() string {
	var all []string
	for _, k := range t.keys[:min(len(t.keys), 5)] {
		all = append(all, k.id[:16])
	}
	if n := len(t.keys) - len(all); n > 0 {
		all = append(all, fmt.Sprintf("%d more", n))
	}
	return strings.Join(all, ", ")
}
