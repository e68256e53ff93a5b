package signer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// rotation is the predicate of a key's statement about its successor, whose id is the subject of that statement.
type rotation struct {
	Old       string    `json:"old"` // ids
	New       string    `json:"new"`
	PublicKey string    `json:"public_key"` // the new one, in PEM
	At        time.Time `json:"at"`
}

// Rotate replaces the signing key by a new key. The old private key is deleted, as far as the file system erases
// it; its signatures stay verifiable. The file statement proves the new key to people with the old one; it is "" if
// there was no old key, or it was lost.
func (k *Keys) Rotate(ctx context.Context) (key *Key, statement string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key, statement, err = k.rotateLocked(ctx); err != nil {
		return nil, "", fmt.Errorf("rotate the key to sign with: %w", err)
	}
	return key, statement, nil
}

func (k *Keys) rotateLocked(ctx context.Context) (key *Key, statement string, err error) {
	unlock, err := k.lockDirectory(ctx)
	if err != nil {
		return nil, "", err
	}
	defer unlock()
	fresh, err := generateKey()
	if err != nil {
		return nil, "", err
	}
	old, err := k.loadKey()
	if errors.Is(err, errNoKey) { // no key to sign the statement
		key, err = k.installKey(ctx, Change{Kind: Created, ID: fresh.ID(), Asked: true}, fresh)
		return key, "", err
	}
	if err != nil {
		return nil, "", err
	}
	text, err := old.signRotation(fresh, time.Now())
	if err != nil {
		return nil, "", err
	}
	// In this order, since the statement needs the old key. A kill in between leaves a statement about a lost key, which
	// the next rotation replaces.
	statement = k.rotationPath(old.ID())
	key, err = k.installKey(ctx, Change{Kind: Rotated, ID: fresh.ID(), Old: old.ID()}, fresh,
		func() error { return replaceFile(statement, text) })
	return key, statement, err
}

// signRotation returns the old key's statement about the new key. The new key signs it, too, since any key can name any
// other as its successor.
func (k *Key) signRotation(fresh *Key, at time.Time) ([]byte, error) {
	return marshalStatement(statement{
		Type:          StatementType,
		Subject:       []subject{newSubject("key:"+fresh.ID(), fresh.ID())},
		PredicateType: RotationType,
		Predicate:     rotation{Old: k.ID(), New: fresh.ID(), PublicKey: string(fresh.PEM()), At: at.UTC().Truncate(time.Second)},
	}, k, fresh)
}

// errUnknownKey is the error that PublicKeyByID wraps for an unknown id.
var errUnknownKey = errors.New("no such key")

// PublicKeyByID returns the public key of an id, also of a replaced key.
func (k *Keys) PublicKeyByID(id string) (PublicKey, error) {
	if !isHash(id) {
		return PublicKey{}, fmt.Errorf("key %q: %w", id, errUnknownKey)
	}
	p, err := readPublicKey(k.publicKeyPath(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return PublicKey{}, fmt.Errorf("key %s: %w in %q", id, errUnknownKey, k.dir)
	case err != nil:
		return PublicKey{}, err
	case p.ID() != id:
		return PublicKey{}, fmt.Errorf("%q holds another key, %s: the file was changed", k.publicKeyPath(id), p.ID())
	}
	return p, nil
}

func readPublicKey(path string) (PublicKey, error) {
	f, info, err := statefile.OpenIn(os.Stat, os.OpenFile, path)
	if err != nil {
		return PublicKey{}, fmt.Errorf("the public key %q: %w", path, WithoutPaths(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return PublicKey{}, err
	}
	p, err := parsePublicKey(text)
	if err != nil {
		return PublicKey{}, fmt.Errorf("the public key %q: %w", path, err)
	}
	p.Created = info.ModTime().UTC().Truncate(time.Second)
	return p, nil
}
