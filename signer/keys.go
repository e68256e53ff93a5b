package signer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Keys are the keys of a directory: the current signing key, and the public keys of all signing keys so far. Many
// goroutines and processes may use one directory at once.
//
// The directory has signing.key (PKCS #8 PEM, for its owner alone), ID.pub (PKIX PEM) of each key, ID.next of each
// replaced key: a statement, signed by the old key and the new one, that names the new one; and ID.revoked of each
// revoked key, signed by a later one. Readers of signing.key, such as root, can sign in its name.
type Keys struct {
	dir    string
	record func(context.Context, Change) error

	mu         sync.Mutex
	cachedKey  *Key        // the last read signing.key
	cachedFile os.FileInfo // its file
}

// Change is an event in the life of a key.
type Change struct {
	Kind  string // Created, Rotated or Revoked
	ID    string // of the new or the revoked key
	Old   string // the id of the replaced key; "" for the first
	Asked bool   // a new key was requested without an old one

	From   time.Time // of a revocation, and why
	Reason string
}

// Kinds of changes.
const (
	Created = "key.created"
	Rotated = "key.rotated"
	Revoked = "key.revoked"
)

// OpenKeys returns the keys of a directory, which need not exist: Current creates it with the first key. A directory
// that others can write to is an error.
//
// record is called right before each change, and its error prevents the change. It is called with the directory locked,
// so it must not use Keys. nil records nothing.
func OpenKeys(dir string, record func(context.Context, Change) error) (*Keys, error) {
	k := &Keys{dir: dir, record: record}
	if err := k.checkDirectory(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the directory of keys: %w", err)
	}
	return k, nil
}

func (k *Keys) checkDirectory() error {
	info, err := os.Stat(k.dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%q is not a directory", k.dir)
	case statefile.HasModes && info.Mode().Perm()&0o022 != 0 || statefile.IsForeign(info):
		return fmt.Errorf("others on this machine may write to %q, and so replace the key: look at what is there, own it, and chmod 700 it",
			k.dir)
	}
	// In a world-writable directory without the sticky bit, any user can replace k.dir.
	if above, err := os.Stat(filepath.Dir(k.dir)); err == nil && above.Mode().Perm()&0o002 != 0 && above.Mode()&os.ModeSticky == 0 &&
		statefile.HasModes {
		return fmt.Errorf("anybody on this machine may write to %q, and so put other keys in place of %q: look at what is there, and "+
			"chmod o-w it", filepath.Dir(k.dir), k.dir)
	}
	return nil
}

// Current returns the signing key, and creates the first one. It checks the file each time, so that a key that another
// process has replaced is not used again.
func (k *Keys) Current(ctx context.Context) (*Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, err := k.loadKey()
	if errors.Is(err, errNoKey) {
		key, err = k.createFirstKey(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("the key to sign with: %w", err)
	}
	return key, nil
}

// HasKey reports whether there is a signing key, so that Current creates none.
func (k *Keys) HasKey() bool {
	_, err := os.Lstat(k.privateKeyPath())
	return err == nil
}

// createFirstKey creates the first key, unless another process just has.
func (k *Keys) createFirstKey(ctx context.Context) (*Key, error) {
	unlock, err := k.lockDirectory(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if key, err := k.loadKey(); !errors.Is(err, errNoKey) {
		return key, err
	}
	if entries, err := os.ReadDir(k.dir); err != nil ||
		slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".pub" }) {
		return nil, errors.Join(err, fmt.Errorf("%q is missing, and it was there: put it back or, if it is lost, make another one with "+
			"sandboxmcp key rotate", k.privateKeyPath()))
	}
	fresh, err := generateKey()
	if err != nil {
		return nil, err
	}
	return k.installKey(ctx, Change{Kind: Created, ID: fresh.ID()}, fresh)
}

// installKey makes fresh the signing key, after calling before, in the locked directory.
func (k *Keys) installKey(ctx context.Context, c Change, fresh *Key, before ...func() error) (*Key, error) {
	text, err := fresh.privatePEM()
	if err != nil {
		return nil, err
	}
	defer clear(text)
	if k.record != nil {
		if err := k.record(ctx, c); err != nil {
			return nil, err
		}
	}
	for _, f := range before {
		if err := f(); err != nil {
			return nil, err
		}
	}
	write := createFile
	if c.Kind == Rotated {
		write = replaceFile
	}
	if err := write(k.privateKeyPath(), text); err != nil {
		return nil, err
	}
	if err := statefile.ReserveSpace(k.dir); err != nil { // for the statement that revokes a key
		return nil, err
	}
	return k.loadKey() // of this or another process
}

// loadKey reads the key if the file has changed, and ensures that the public key is on the disk before anything is
// signed.
func (k *Keys) loadKey() (*Key, error) {
	info, err := os.Lstat(k.privateKeyPath())
	if err == nil && k.cachedKey != nil && os.SameFile(info, k.cachedFile) && info.ModTime().Equal(k.cachedFile.ModTime()) &&
		info.Mode() == k.cachedFile.Mode() {
		return k.cachedKey, nil
	}
	k.cachedKey = nil
	key, info, err := readPrivateKey(k.privateKeyPath())
	if err != nil {
		return nil, err
	}
	if err := k.checkDirectory(); err != nil {
		return nil, err
	}
	if err := createFile(k.publicKeyPath(key.ID()), key.PEM()); err != nil {
		return nil, err
	}
	public, err := k.PublicKeyByID(key.ID())
	if err != nil {
		return nil, err
	}
	key.Created = public.Created
	k.cachedKey, k.cachedFile = key, info
	return key, nil
}

// Dir returns the directory.
func (k *Keys) Dir() string { return k.dir }

func (k *Keys) privateKeyPath() string         { return filepath.Join(k.dir, "signing.key") }
func (k *Keys) publicKeyPath(id string) string { return filepath.Join(k.dir, id+".pub") }
func (k *Keys) rotationPath(id string) string  { return filepath.Join(k.dir, id+".next") }

func (k *Keys) revocationPath(id string) string { return filepath.Join(k.dir, id+".revoked") }
