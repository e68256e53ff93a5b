package vault

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault/keyring"
)

// ErrExists is wrapped by Sealed.Add for a secret that exists already.
var ErrExists = errors.New("in the vault already")

// Sealed is a store that keeps secrets in a directory, each encrypted by itself, for all processes of the machine.
// Many goroutines and processes may use one directory at once.
//
// The directory has vault.db, with the names in the clear, and vault.key, an age identity that only its owner may
// read, or the name of an identity in the keyring of the operating system. Both files together give the secrets.
// Write access to vault.db alone permits deleting secrets and restoring an older value under the same name, but not
// reading a secret, making one appear under another name, or binding it to other hosts: that is noticed.
//
// The database also lists the secrets that were added to the keyring itself, which Keyring leases.
//
// Reading creates no file, and nothing stays open or in memory between two calls.
type Sealed struct {
	dir    string
	record func(context.Context, Change) error
	ring   *keyring.Ring
}

// Stores that a secret can be added to.
const (
	InSealed  = "sealed"
	InKeyring = "keyring"
)

// Change is an event in the life of an added secret, or of the vault's key.
type Change struct {
	Kind  string // Added, Rotated, Deleted or Rekeyed
	Entry        // Binding is not known of a deleted secret that could not be opened; of Rekeyed it is empty

	Place   string // of Rekeyed: where the new key is, InFile or InKeyring
	Secrets int    // of Rekeyed: how many were sealed anew
}

// Kinds of changes.
const (
	Added   = "vault.added"
	Rotated = "vault.rotated"
	Deleted = "vault.deleted"
	Rekeyed = "vault.rekeyed"
)

// Entry is a secret without its value.
type Entry struct {
	Namespace, Key string
	Binding
	Added time.Time // by this machine's clock: when the value came
	Store string    // InSealed or InKeyring; "" is InSealed
}

// NewSealed returns the store in a directory, which need not exist.
//
// record is called before each change, once nothing but the disk or the keyring can prevent the change. Its error
// prevents it. nil records nothing.
func NewSealed(dir string, record func(context.Context, Change) error) *Sealed {
	if record == nil {
		record = func(context.Context, Change) error { return nil }
	}
	return &Sealed{dir: dir, record: record, ring: keyring.New()}
}

// Get returns a copy of a value and its binding. A secret that can't be decrypted is an error other than ErrNotFound.
func (s *Sealed) Get(ctx context.Context, namespace, key string) ([]byte, Binding, error) {
	r, err := s.readRow(ctx, namespace, key)
	if err == nil && r.identity == inKeyring {
		err = ErrNotFound // here, that is
	}
	if err != nil {
		return nil, Binding{}, err
	}
	e, value, err := s.openRow(ctx, r)
	return value, e.Binding, err
}

// openRow opens a row, also if it was sealed for a new key after it was read.
func (s *Sealed) openRow(ctx context.Context, r row) (Entry, []byte, error) {
	var err error
	for range maxRekeys {
		var id identity
		if id, err = s.identityNamed(ctx, r.identity); err == nil {
			return id.open(r)
		}
		now, gone := s.readRow(ctx, r.namespace, r.key)
		if gone != nil || now.identity == r.identity || now.identity == inKeyring {
			break
		}
		r = now
	}
	return Entry{}, nil, err
}

// maxRekeys is the number of tries of a reader whose key is replaced meanwhile.
const maxRekeys = 20

func (s *Sealed) readRow(ctx context.Context, namespace, key string) (r row, err error) {
	err = s.readDatabase(ctx, func(db *sql.DB) (err error) {
		r, err = selectRow(ctx, db, namespace, key)
		return err
	})
	return r, err
}

// List returns the secrets of a namespace, or of all if it is "", sorted by name, including those in the keyring.
// problems has an error for each secret that can't be opened; of those, only the names and the store are known.
func (s *Sealed) List(ctx context.Context, namespace string) (entries []Entry, problems []error, err error) {
	var rows []row
	err = s.readDatabase(ctx, func(db *sql.DB) (err error) {
		rows, err = selectRows(ctx, db, namespace)
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, nil, err
	}
	entries, problems = s.openAll(ctx, rows)
	return entries, problems, nil
}

func (s *Sealed) openAll(ctx context.Context, rows []row) (entries []Entry, problems []error) {
	open := s.newOpener(ctx)
	for _, r := range rows {
		e, value, err := open(r)
		if errors.Is(err, errOtherKey) {
			e, value, err = s.openRow(ctx, r)
		}
		clear(value)
		if err != nil {
			e = Entry{Namespace: r.namespace, Key: r.key, Store: r.storeName()}
			problems = append(problems, fmt.Errorf("secret %s of namespace %s: %w", r.key, r.namespace, err))
		}
		entries = append(entries, e)
	}
	return entries, problems
}

// Names lists the keys of a namespace's secrets, of all if it is "", and opens none.
func (s *Sealed) Names(ctx context.Context, namespace string) (keys []string, err error) {
	err = s.readDatabase(ctx, func(db *sql.DB) error {
		rows, err := selectRows(ctx, db, namespace)
		for _, r := range rows {
			keys = append(keys, r.key)
		}
		return err
	})
	if errors.Is(err, ErrNotFound) { // nothing was ever added
		return nil, nil
	}
	return keys, err
}

// newOpener returns a function that opens rows. Each key is read once, and a keyring that does not answer is asked
// once.
func (s *Sealed) newOpener(ctx context.Context) func(row) (Entry, []byte, error) {
	type answer struct {
		id  identity
		err error
	}
	known := map[string]answer{}
	var noKeyring error
	return func(r row) (Entry, []byte, error) {
		if r.identity == inKeyring {
			if noKeyring != nil {
				return Entry{}, nil, noKeyring
			}
			e, value, err := s.readFromKeyring(ctx, r)
			if errors.Is(err, keyring.ErrUnavailable) {
				noKeyring = err
			}
			return e, value, err
		}
		a, ok := known[r.identity]
		if !ok {
			a.id, a.err = s.identityNamed(ctx, r.identity)
			known[r.identity] = a
		}
		if a.err != nil {
			return Entry{}, nil, a.err
		}
		return a.id.open(r)
	}
}

// mayBind reports whether a secret was ever added.
func (s *Sealed) mayBind() bool {
	_, err := os.Stat(s.databasePath())
	return err == nil
}

func (s *Sealed) keyFilePath() string  { return filepath.Join(s.dir, "vault.key") }
func (s *Sealed) databasePath() string { return filepath.Join(s.dir, "vault.db") }

func (*Sealed) howToAdd(namespace, key string) remedy.Text {
	return remedy.Text{"put it there with ", remedy.Command.With("sandboxmcp vault add " + key + " --namespace " + namespace)}
}

// Key returns the name of the key that secrets are sealed for, and its place: InFile or InKeyring. The name tells keys
// apart and opens nothing. An error says that the key can't be read; the place is that of a vault without secrets then.
func (s *Sealed) Key(ctx context.Context) (name, place string, err error) {
	k, err := readKeyFile(s.keyFilePath())
	if err != nil {
		return "", "", err
	}
	_, err = s.openKey(ctx, k)
	return k.name, k.place(), err
}
