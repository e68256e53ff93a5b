package vault

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// nextKeyFilePath is the path of the new key while all secrets are sealed for it.
func (s *Sealed) nextKeyFilePath() string { return filepath.Join(s.dir, "vault.key.next") }

// Rekey makes a new key in a place, InFile or InKeyring, or where the old one is if that is "", seals all secrets for
// it, and destroys the old one. It returns the place and the number of secrets. If one secret does not open, nothing is
// changed. A process that is killed meanwhile leaves two keys, and the secrets sealed for one of them: they stay
// readable, and the next change to the vault removes the other key. The order ensures that:
//
//  1. vault.key.next, which holds the new key or names it;
//  2. the new key, into the keyring if it goes there;
//  3. the database, in one transaction;
//  4. the old key, out of the keyring if it was there;
//  5. vault.key.next becomes vault.key.
func (s *Sealed) Rekey(ctx context.Context, place string) (at string, secrets int, err error) {
	if place != "" && place != InFile && place != InKeyring {
		return "", 0, fmt.Errorf("the key of the vault can be in a file or in the keyring, not in %.40q", place)
	}
	err = s.createDatabase(ctx)
	if err == nil {
		err = s.changeDatabase(ctx, func(tx *sql.Tx) (err error) {
			at, secrets, err = s.replaceKey(ctx, tx, place)
			return err
		})
	}
	left := s.changeDatabase(context.WithoutCancel(ctx), func(*sql.Tx) error { return nil }) // settles
	if err != nil {
		return "", 0, fmt.Errorf("make a new key of the vault: %w", err)
	}
	if left != nil {
		return at, secrets, fmt.Errorf("the secrets are sealed for a new key, but the old one could not be removed; the next change to the "+
			"vault tries again: %w", left)
	}
	return at, secrets, nil
}

func (s *Sealed) replaceKey(ctx context.Context, tx *sql.Tx, place string) (at string, n int, err error) {
	old, err := readKeyFile(s.keyFilePath())
	if errors.Is(err, errNoKey) {
		err = nil // a vault without sealed secrets may lack a key
	}
	if err != nil {
		return "", 0, err
	}
	place = cmp.Or(place, old.place())
	rows, err := selectRows(ctx, tx, "")
	if err != nil {
		return "", 0, err
	}
	id, err := newIdentity()
	if err != nil {
		return "", 0, err
	}
	if n, err = s.sealAll(ctx, tx, rows, id); err != nil {
		return "", 0, err
	}
	k, err := s.writeNextKey(ctx, id, place)
	if err == nil {
		err = s.record(ctx, Change{Kind: Rekeyed, Place: place, Secrets: n})
		if err != nil {
			s.deleteNextKey(ctx, k)
		}
	}
	return place, n, err
}

// sealAll seals all sealed secrets for id, in the transaction.
func (s *Sealed) sealAll(ctx context.Context, tx *sql.Tx, rows []row, id identity) (n int, err error) {
	open := s.newOpener(ctx)
	for _, r := range rows {
		if r.identity == inKeyring {
			continue
		}
		e, value, err := open(r)
		if err != nil {
			return 0, fmt.Errorf("secret %s of namespace %s: %w", r.key, r.namespace, err)
		}
		r.sealed, err = id.seal(e, value)
		clear(value)
		if err != nil {
			return 0, err
		}
		r.identity = id.name()
		if err := upsertRow(ctx, tx, r); err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// writeNextKey writes the new key beside the old key. If that fails, nothing of the new key remains.
func (s *Sealed) writeNextKey(ctx context.Context, id identity, place string) (keyFile, error) {
	k := keyFile{name: id.name()}
	if place == InFile {
		k.id = &id
	}
	if err := s.writeKeyFile(s.nextKeyFilePath(), k); err != nil {
		return k, err
	}
	if there, err := readKeyFile(s.nextKeyFilePath()); err != nil || there.name != k.name {
		return k, cmp.Or(err, fmt.Errorf("%q is there already, and some secrets are sealed for it: put a backup back, or delete those",
			s.nextKeyFilePath()))
	}
	if k.id != nil {
		return k, nil
	}
	err := s.ring.Set(ctx, keyringKeyService, k.name, id.key().String())
	if err == nil {
		_, err = s.openKey(ctx, k) // check that the keyring returns it: without it, all secrets are lost
	}
	if err != nil {
		s.deleteNextKey(ctx, k)
	}
	return k, err
}

// deleteNextKey removes a new key for which nothing is sealed.
func (s *Sealed) deleteNextKey(ctx context.Context, k keyFile) error {
	s.deleteKeyFromKeyring(context.WithoutCancel(ctx), k) // if it stays in the keyring, it opens nothing
	return os.Remove(s.nextKeyFilePath())
}

// removeUnusedKey removes, with the database locked, one of the two keys of a finished or killed Rekey: the key for
// which no secret is sealed.
func (s *Sealed) removeUnusedKey(ctx context.Context, tx *sql.Tx) error {
	statefile.RemoveAbandoned(s.dir, tempKeyKind, 0)
	if _, err := os.Lstat(s.nextKeyFilePath()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	next, err := readKeyFile(s.nextKeyFilePath())
	if err != nil {
		return err
	}
	total, others, err := countSealed(ctx, tx, next.name)
	switch {
	case err != nil:
		return err
	case others == 0:
		// A key that can't be removed from the keyring opens nothing any more.
		if old, err := readKeyFile(s.keyFilePath()); err == nil && old.name != next.name {
			s.deleteKeyFromKeyring(ctx, old)
		}
		if err := os.Rename(s.nextKeyFilePath(), s.keyFilePath()); err != nil {
			return err
		}
		return statefile.SyncDir(s.dir)
	case others == total:
		return s.deleteNextKey(ctx, next)
	}
	return nil // the database was changed by others: deletes still work, calls that need a key fail
}
