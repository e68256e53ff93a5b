package vault

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// Add stores a copy of value under e's names, in e's store, with e's binding. It replaces a secret of these names in
// either store if replace is set; otherwise that is ErrExists.
//
// When Add returns, the secret is on the disk, or in the keyring. The first secret of a directory creates its key.
func (s *Sealed) Add(ctx context.Context, e Entry, value []byte, replace bool) error {
	return s.AddAll(ctx, []Addition{{e, value}}, replace)
}

// Addition is a secret to add.
type Addition struct {
	Entry
	Value []byte
}

// Check returns the error with which adding the secret would certainly fail, or nil.
func (a Addition) Check() error { return a.Entry.validate(a.Value, 1) }

// AddAll adds all of these secrets or none, as Add does. The keyring has no transactions, so it takes one secret at a
// time.
func (s *Sealed) AddAll(ctx context.Context, all []Addition, replace bool) error {
	now := time.Now().UTC().Truncate(time.Second)
	for i := range all {
		e := &all[i].Entry
		if err := e.validate(all[i].Value, len(all)); err != nil {
			return err
		}
		e.Added = now
	}
	if err := s.createDatabase(ctx); err != nil {
		return all[0].addError(err)
	}
	at := 0
	err := s.changeDatabase(ctx, func(tx *sql.Tx) error {
		for at = range all {
			if err := s.addSecret(ctx, tx, all[at].Entry, all[at].Value, replace); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return all[at].addError(err)
	}
	return nil
}

func (e *Entry) validate(value []byte, of int) error {
	e.Store = cmp.Or(e.Store, InSealed)
	err := CheckName(e.Namespace, e.Key)
	if err != nil {
		return err
	}
	if err = checkValue(value); err == nil {
		err = e.Binding.validate(value)
	}
	switch {
	case err != nil:
	case e.Store != InSealed && e.Store != InKeyring:
		err = fmt.Errorf("unknown store %.40q: use sealed or keyring", e.Store)
	case e.Store == InKeyring && of > 1:
		err = errors.New("a keyring takes one secret at a time")
	}
	if err != nil {
		return e.addError(err)
	}
	return nil
}

func (e Entry) addError(err error) error {
	return fmt.Errorf("add secret %s to namespace %s: %w", e.Key, e.Namespace, err)
}

// addSecret adds one secret, with the database locked.
func (s *Sealed) addSecret(ctx context.Context, tx *sql.Tx, e Entry, value []byte, replace bool) error {
	old, err := selectRow(ctx, tx, e.Namespace, e.Key)
	switch {
	case err == nil && !replace:
		return ErrExists
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	}
	if e.Store == InKeyring {
		if err := upsertRow(ctx, tx, row{e.Namespace, e.Key, inKeyring, []byte{}}); err != nil {
			return err
		}
		return s.storeInKeyring(ctx, Change{Kind: Added, Entry: e}, value, replace)
	}
	if err := s.sealSecret(ctx, tx, e, value); err != nil {
		return err
	}
	if err := s.record(ctx, Change{Kind: Added, Entry: e}); err != nil || old.identity != inKeyring {
		return err
	}
	return s.deleteFromKeyring(ctx, e.Namespace, e.Key) // it has moved
}

// sealSecret writes the row of a sealed secret.
func (s *Sealed) sealSecret(ctx context.Context, tx *sql.Tx, e Entry, value []byte) error {
	id, err := s.identityForSealing(ctx, tx)
	if err != nil {
		return err
	}
	sealed, err := id.seal(e, value)
	if err != nil {
		return err
	}
	return upsertRow(ctx, tx, row{e.Namespace, e.Key, id.name(), sealed})
}

// Rotate replaces the value of a secret, keeps its binding, resets its age, and returns the new entry; or ErrNotFound.
// Open leases keep the old value.
func (s *Sealed) Rotate(ctx context.Context, namespace, key string, value []byte) (e Entry, err error) {
	if err := CheckName(namespace, key); err != nil {
		return Entry{}, err
	}
	if err = checkValue(value); err == nil {
		err = s.changeDatabase(ctx, func(tx *sql.Tx) (err error) {
			e, err = s.rotateSecret(ctx, tx, namespace, key, value)
			return err
		})
	}
	if err != nil {
		return Entry{}, fmt.Errorf("rotate secret %s of namespace %s: %w", key, namespace, err)
	}
	return e, nil
}

func (s *Sealed) rotateSecret(ctx context.Context, tx *sql.Tx, namespace, key string, value []byte) (Entry, error) {
	r, err := selectRow(ctx, tx, namespace, key)
	if err != nil {
		return Entry{}, err
	}
	e, old, err := s.newOpener(ctx)(r)
	clear(old)
	if err != nil {
		return Entry{}, err
	}
	if err := e.Binding.validate(value); err != nil {
		return Entry{}, err
	}
	e.Added = time.Now().UTC().Truncate(time.Second)
	if e.Store == InKeyring {
		return e, s.storeInKeyring(ctx, Change{Kind: Rotated, Entry: e}, value, true)
	}
	if err := s.sealSecret(ctx, tx, e, value); err != nil {
		return Entry{}, err
	}
	return e, s.record(ctx, Change{Kind: Rotated, Entry: e})
}

// Delete removes a secret, or returns ErrNotFound. It needs no key, but for a secret in the keyring it needs the
// keyring.
func (s *Sealed) Delete(ctx context.Context, namespace, key string) error {
	if err := CheckName(namespace, key); err != nil {
		return err
	}
	err := s.changeDatabase(ctx, func(tx *sql.Tx) error {
		r, err := selectRow(ctx, tx, namespace, key)
		if err != nil {
			return err
		}
		e := Entry{Namespace: namespace, Key: key, Store: r.storeName()}
		if known, value, err := s.newOpener(ctx)(r); err == nil {
			clear(value)
			e = known
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM secret WHERE namespace = ? AND key = ?", namespace, key); err != nil {
			return err
		}
		if err := s.record(ctx, Change{Kind: Deleted, Entry: e}); err != nil || r.identity != inKeyring {
			return err
		}
		return s.deleteFromKeyring(ctx, namespace, key)
	})
	if err != nil {
		return fmt.Errorf("delete secret %s of namespace %s: %w", key, namespace, err)
	}
	return nil
}
