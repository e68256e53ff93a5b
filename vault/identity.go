package vault

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"filippo.io/age"
)

// identity is the age key for which secrets are sealed.
type identity struct {
	key func() *age.X25519Identity // a function, as in Lease
}

func newIdentity() (identity, error) {
	key, err := age.GenerateX25519Identity()
	return identity{func() *age.X25519Identity { return key }}, err
}

func parseIdentity(text string) (identity, error) {
	key, err := age.ParseX25519Identity(text)
	if err != nil {
		return identity{}, errors.New("it is not a key of the kind AGE-SECRET-KEY-1") // err may quote it
	}
	return identity{func() *age.X25519Identity { return key }}, nil
}

// name identifies the key. Unlike the recipient, it does not allow readers of the database to seal secrets for the key.
func (id identity) name() string {
	sum := sha256.Sum256([]byte(id.key().Recipient().String()))
	return hex.EncodeToString(sum[:16])
}

var (
	errNoKey    = errors.New("the key of the vault is missing")
	errOtherKey = errors.New("it is sealed for another key")
)

// identityNamed returns the key of a name. During Rekey there are two keys, and the second replaces the first at any
// moment: so the search reads the first file, the second, and the first again.
func (s *Sealed) identityNamed(ctx context.Context, name string) (identity, error) {
	var err error
	for _, path := range []string{s.keyFilePath(), s.nextKeyFilePath(), s.keyFilePath()} {
		var k keyFile
		k, err = readKeyFile(path)
		if err == nil && k.name == name {
			return s.openKey(ctx, k)
		}
	}
	if err != nil {
		return identity{}, err
	}
	return identity{}, fmt.Errorf("%w than %q: put the right key back, or delete the secret and add it again", errOtherKey, s.keyFilePath())
}

// identityForSealing returns the key for sealing the next secret, with the database locked. Only a vault without
// secrets gets a new key. All secrets stay sealed for one key, so that the loss of a key is noticed before half of the
// secrets are sealed for another.
func (s *Sealed) identityForSealing(ctx context.Context, tx *sql.Tx) (identity, error) {
	k, err := readKeyFile(s.keyFilePath())
	total, others, countErr := countSealed(ctx, tx, k.name)
	switch {
	case countErr != nil:
		return identity{}, countErr
	case errors.Is(err, errNoKey) && total == 0:
		return s.createIdentity()
	case err != nil:
		return identity{}, err
	case others > 0:
		return identity{}, fmt.Errorf("%d of the %d secrets there are sealed for another key than %q: put the right key back, or delete them",
			others, total, s.keyFilePath())
	}
	id, err := s.openKey(ctx, k)
	if errors.Is(err, errNoKey) && total == 0 { // it was deleted from the keyring
		if err := os.Remove(s.keyFilePath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return identity{}, err
		}
		return s.createIdentity()
	}
	return id, err
}

// createIdentity creates a key file, unless it exists, and returns its key.
func (s *Sealed) createIdentity() (identity, error) {
	id, err := newIdentity()
	if err == nil {
		err = s.writeKeyFile(s.keyFilePath(), keyFile{name: id.name(), id: &id})
	}
	var k keyFile
	if err == nil {
		k, err = readKeyFile(s.keyFilePath())
	}
	if err != nil || k.id == nil {
		return identity{}, fmt.Errorf("make the key of the vault: %w", err)
	}
	return *k.id, nil
}
