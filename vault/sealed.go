package vault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// ErrExists is what Sealed.Add wraps for a secret that is there already.
var ErrExists = errors.New("in the vault already")

// Sealed is a store that keeps secrets in a folder, each one encrypted by itself: what one process
// adds is there for the others. Many goroutines and processes may use one folder at once.
//
// In the folder are vault.db, with the names in the clear, and vault.key, an age identity that only
// its owner may read. Whoever has both has the secrets. Whoever can change vault.db, and no more, can
// take secrets away and put back an older one under the same name, but can't read one, make one
// appear under another name, or bind it to other hosts: that is noticed.
//
// Reading makes no file, and nothing stays open or in memory between two calls.
type Sealed struct {
	dir    string
	record func(context.Context, Change) error
}

// Change is something that happens to a sealed secret.
type Change struct {
	Kind  string // Added or Deleted
	Entry        // Binding is not known of a deleted secret that could not be opened
}

// Kinds of changes.
const (
	Added   = "vault.added"
	Deleted = "vault.deleted"
)

// Entry is a secret without its value.
type Entry struct {
	Namespace, Key string
	Binding
	Added time.Time // by this machine's clock
}

// NewSealed returns the store in a folder, which need not exist.
//
// record is told of each change when nothing but the disk can stop it any more, and before it is
// made. An error stops it. nil is nobody.
func NewSealed(dir string, record func(context.Context, Change) error) *Sealed {
	return &Sealed{dir: dir, record: record}
}

// Add keeps a copy of value under e's names, bound to where e says. Another one that is there already
// is replaced if replace says so; otherwise that is ErrExists.
//
// When Add returns, the secret is on the disk. The first secret of a folder makes its key.
func (s *Sealed) Add(ctx context.Context, e Entry, value []byte, replace bool) error {
	if err := CheckName(e.Namespace, e.Key); err != nil {
		return err
	}
	err := checkValue(value)
	if err == nil {
		err = e.Binding.check(value)
	}
	if err == nil {
		e.Added = time.Now().UTC().Truncate(time.Second)
		err = s.add(ctx, e, value, replace)
	}
	if err != nil {
		return fmt.Errorf("add secret %s to namespace %s: %w", e.Key, e.Namespace, err)
	}
	return nil
}

func (s *Sealed) add(ctx context.Context, e Entry, value []byte, replace bool) error {
	if err := s.create(ctx); err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		id, err := s.identityFor(ctx, tx)
		if err != nil {
			return err
		}
		switch _, err := find(ctx, tx, e.Namespace, e.Key); {
		case err == nil && !replace:
			return ErrExists
		case err != nil && !errors.Is(err, ErrNotFound):
			return err
		}
		sealed, err := id.seal(e, value)
		if err != nil {
			return err
		}
		if err := put(ctx, tx, row{e.Namespace, e.Key, id.name(), sealed}); err != nil {
			return err
		}
		return s.tell(ctx, Change{Added, e})
	})
}

// Delete removes a secret, or returns ErrNotFound. It does not need the key.
func (s *Sealed) Delete(ctx context.Context, namespace, key string) error {
	if err := CheckName(namespace, key); err != nil {
		return err
	}
	err := s.change(ctx, func(tx *sql.Tx) error {
		r, err := find(ctx, tx, namespace, key)
		if err != nil {
			return err
		}
		e := Entry{Namespace: namespace, Key: key}
		if known, value, err := s.open(r); err == nil {
			clear(value)
			e = known
		}
		if err := remove(ctx, tx, namespace, key); err != nil {
			return err
		}
		return s.tell(ctx, Change{Deleted, e})
	})
	if err != nil {
		return fmt.Errorf("delete secret %s of namespace %s: %w", key, namespace, err)
	}
	return nil
}

// Get returns a copy of a value and where it may go. What does not open is an error, never
// ErrNotFound.
func (s *Sealed) Get(ctx context.Context, namespace, key string) ([]byte, Binding, error) {
	var r row
	err := s.read(ctx, func(db *sql.DB) (err error) {
		r, err = find(ctx, db, namespace, key)
		return err
	})
	if err != nil {
		return nil, Binding{}, err
	}
	e, value, err := s.open(r)
	return value, e.Binding, err
}

// List returns the secrets of a namespace, of all if it is "", in the order of their names. problems
// says of those that do not open why that is; of these, only the names are known.
func (s *Sealed) List(ctx context.Context, namespace string) (entries []Entry, problems []error, err error) {
	var rows []row
	err = s.read(ctx, func(db *sql.DB) (err error) {
		rows, err = list(ctx, db, namespace)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, nil, err
	}
	for _, r := range rows {
		e, value, err := s.open(r)
		clear(value)
		if err != nil {
			e = Entry{Namespace: r.namespace, Key: r.key}
			problems = append(problems, fmt.Errorf("secret %s of namespace %s: %w", r.key, r.namespace, err))
		}
		entries = append(entries, e)
	}
	return entries, problems, nil
}

// open returns what a row holds.
func (s *Sealed) open(r row) (Entry, []byte, error) {
	id, err := readIdentity(s.keyFile())
	if err != nil {
		return Entry{}, nil, err
	}
	if r.identity != id.name() {
		return Entry{}, nil, fmt.Errorf("it is sealed for another key than %q: put the right key back, or delete the secret and add it again", s.keyFile())
	}
	return id.open(r)
}

func (s *Sealed) tell(ctx context.Context, c Change) error {
	if s.record == nil {
		return nil
	}
	return s.record(ctx, c)
}

// mayBind says whether anything was ever added.
func (s *Sealed) mayBind() bool {
	_, err := os.Stat(s.database())
	return err == nil
}

func (s *Sealed) keyFile() string  { return filepath.Join(s.dir, "vault.key") }
func (s *Sealed) database() string { return filepath.Join(s.dir, "vault.db") }

func (*Sealed) remedy(namespace, key string) string {
	return fmt.Sprintf("put it there with sandboxmcp vault add %s --namespace %s", key, namespace)
}
