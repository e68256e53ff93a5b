package signer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Trust is the public keys that somebody believes in.
type Trust struct{ keys []PublicKey }

// NewTrust trusts these keys.
func NewTrust(keys ...PublicKey) *Trust {
	t := &Trust{}
	for _, k := range keys {
		t.add(k)
	}
	return t
}

// ReadTrust trusts what is in the paths: the PEM file of a public key; all files *.pub and *.pem of a
// folder; the key that a rotation statement (*.next) names, if a key of the other paths signed it.
func ReadTrust(paths ...string) (*Trust, error) {
	t := &Trust{}
	var statements [][]byte
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("open %q: %w", path, bare(err))
		}
		switch {
		case info.IsDir():
			err = t.addFolder(path)
		case filepath.Ext(path) == ".next":
			var text []byte
			text, err = readAll(path, maxStatement)
			statements = append(statements, text)
		default:
			var key PublicKey
			key, err = readPublic(path)
			t.add(key)
		}
		if err != nil {
			return nil, err
		}
	}
	return t, t.Follow(statements...)
}

func (t *Trust) addFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".pub" && ext != ".pem" {
			continue
		}
		key, err := readPublic(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		t.add(key)
	}
	return nil
}

func (t *Trust) add(k PublicKey) {
	if _, known := t.Find(k.ID()); !known {
		t.keys = append(t.keys, k)
	}
}

// Keys are those that are trusted.
func (t *Trust) Keys() []PublicKey { return slices.Clone(t.keys) }

// Find returns the trusted key of an id.
func (t *Trust) Find(id string) (PublicKey, bool) {
	i := slices.IndexFunc(t.keys, func(k PublicKey) bool { return k.id == id })
	if i < 0 {
		return PublicKey{}, false
	}
	return t.keys[i], true
}

// maxStatement is more than a rotation statement needs, in bytes.
const maxStatement = 64 << 10

// Follow trusts the keys that rotation statements name, in any order, each signed by a key that is
// trusted already. One that is not is an error. Whoever has stolen a key can make such statements,
// too: follow none of a key that was replaced for that reason.
func (t *Trust) Follow(statements ...[]byte) error {
	for rest := statements; len(rest) > 0; {
		var later [][]byte
		var why error
		for _, text := range rest {
			key, err := t.successor(text)
			if err != nil {
				later, why = append(later, text), err
				continue
			}
			t.add(key)
		}
		if len(later) == len(rest) {
			return fmt.Errorf("the statement about the next key: %w", why)
		}
		rest = later
	}
	return nil
}

func (t *Trust) successor(text []byte) (PublicKey, error) {
	s, problems := t.open(text)
	if len(problems) > 0 {
		return PublicKey{}, errors.New(problems[0].String())
	}
	var r rotation
	if err := s.about(RotationType, &r); err != nil {
		return PublicKey{}, err
	}
	key, err := parsePublicKey([]byte(r.PublicKey))
	switch {
	case err != nil:
		return PublicKey{}, fmt.Errorf("the key in it: %w", err)
	case len(s.subjects) != 1 || s.subjects[0].SHA256 != key.ID() || r.New != key.ID() || r.Old != s.key.ID():
		return PublicKey{}, errors.New("it names other keys than it holds and is signed by")
	}
	return key, nil
}

// readAll reads a file that must not be larger than max bytes.
func readAll(path string, max int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = fmt.Errorf("%q is larger than %d bytes", path, max)
	}
	return text, err
}

// ids are the first characters of the keys' ids, for people.
func (t *Trust) ids() string {
	var all []string
	for _, k := range t.keys[:min(len(t.keys), 5)] {
		all = append(all, k.id[:16])
	}
	if n := len(t.keys) - len(all); n > 0 {
		all = append(all, fmt.Sprintf("%d more", n))
	}
	return strings.Join(all, ", ")
}
