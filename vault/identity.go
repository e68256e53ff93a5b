package vault

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"filippo.io/age"
)

// identity is the key that secrets are sealed for.
type identity struct {
	key func() *age.X25519Identity // a function, as in Lease
}

// name tells keys apart, and nothing else: whoever reads it in the database could not seal anything
// for the key, as with the recipient itself.
func (id identity) name() string {
	sum := sha256.Sum256([]byte(id.key().Recipient().String()))
	return hex.EncodeToString(sum[:16])
}

var errNoKey = errors.New("the key of the vault is missing")

// maxKeyFile is more than age-keygen writes with any comment.
const maxKeyFile = 8 << 10

// readIdentity reads a key file, which others must not be able to read. Its errors do not quote it.
func readIdentity(path string) (identity, error) {
	f, err := openPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, fmt.Errorf("%w: put %q back, as nothing else opens what is sealed for it", errNoKey, path)
	}
	if err != nil {
		return identity{}, fmt.Errorf("the key of the vault: %w", err)
	}
	defer f.Close()
	found, err := age.ParseIdentities(io.LimitReader(f, maxKeyFile))
	if err == nil && len(found) == 1 {
		if key, ok := found[0].(*age.X25519Identity); ok {
			return identity{func() *age.X25519Identity { return key }}, nil
		}
	}
	return identity{}, fmt.Errorf("the key of the vault, %q, is not one key of the kind AGE-SECRET-KEY-1: put the right one back", path)
}

// makeIdentity makes a key file, unless there is one.
func makeIdentity(dir, path string) error {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	return makeFile(dir, path, func(fresh string) error {
		f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(f, "# created: %s\n# public key: %s\n%s\n", time.Now().Format(time.RFC3339), key.Recipient(), key)
		return errors.Join(err, f.Sync(), f.Close())
	})
}

// identityFor returns the key that the next secret is sealed for, with the database locked. Only a
// vault without secrets gets a new one, and all of them stay sealed for one key: the loss of a key
// shows as soon as it can, not when half of the secrets are sealed for another one.
func (s *Sealed) identityFor(ctx context.Context, tx *sql.Tx) (identity, error) {
	id, err := readIdentity(s.keyFile())
	name := ""
	if err == nil {
		name = id.name()
	}
	total, others, countErr := count(ctx, tx, name)
	switch {
	case countErr != nil:
		return identity{}, countErr
	case errors.Is(err, errNoKey) && total == 0:
		if err := makeIdentity(s.dir, s.keyFile()); err != nil {
			return identity{}, fmt.Errorf("make the key of the vault: %w", err)
		}
		return readIdentity(s.keyFile())
	case err != nil:
		return identity{}, err
	case others > 0:
		return identity{}, fmt.Errorf("%d of the %d secrets there are sealed for another key than %q: put the right key back, or delete them",
			others, total, s.keyFile())
	}
	return id, nil
}
