package signer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Trust returns the trusted keys of the directory: the current signing key, and its predecessors, each linked to its
// successor by a statement that both have signed. Other keys in the directory are not trusted: see UntrustedFiles. A
// directory that others can write to is an error; a missing one, or one without a signing key, trusts none.
func (k *Keys) Trust() (*Trust, error) {
	if err := k.checkDirectory(); errors.Is(err, fs.ErrNotExist) {
		return NewTrust(), nil
	} else if err != nil {
		return nil, fmt.Errorf("the directory of keys: %w", err)
	}
	key, _, err := readPrivateKey(k.privateKeyPath())
	if errors.Is(err, errNoKey) {
		return NewTrust(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("the key to sign with: %w", err)
	}
	if public, err := k.PublicKeyByID(key.ID()); err == nil {
		key.Created = public.Created
	}
	return k.trustChain(key.PublicKey)
}

func (k *Keys) trustChain(today PublicKey) (*Trust, error) {
	t := NewTrust(today)
	before, err := k.predecessors()
	if err != nil {
		return nil, err
	}
	for old, ok := before[today.id]; ok && t.indexOf(old.id) < 0; old, ok = before[old.id] {
		t.addKey(old)
	}
	for _, old := range t.Keys()[1:] {
		text, err := readStatement(k.revocationPath(old.id))
		if err == nil && text != nil {
			err = t.applyRevocation(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", k.revocationPath(old.id), err)
		}
	}
	return t, nil
}

// predecessors returns the directory's replaced keys by the ids of their successors, as far as both have signed the
// statement.
func (k *Keys) predecessors() (map[string]PublicKey, error) {
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		return nil, err
	}
	before := map[string]PublicKey{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".next")
		if !ok || !isHash(id) {
			continue
		}
		text, err := readStatement(k.rotationPath(id))
		if err != nil {
			return nil, err
		}
		r, old, byBoth, err := openRotation(text, func(id string) (PublicKey, bool) {
			p, err := k.PublicKeyByID(id)
			return p, err == nil
		})
		if _, known := before[r.New]; err == nil && byBoth && !known {
			old.Replaced = r.At
			before[r.New] = old
		}
	}
	return before, nil
}

// UntrustedFiles returns the files of the directory with public keys that Trust does not trust.
func (k *Keys) UntrustedFiles(t *Trust) (files []string, err error) {
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".pub")
		if _, known := t.KeyByID(id); ok && !known {
			files = append(files, filepath.Join(k.dir, e.Name()))
		}
	}
	return files, nil
}
