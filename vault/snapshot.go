package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Snapshot returns the database as it is now, which no change reaches until it is closed, and the content of a key file
// that opens all sealed secrets, also if the key is in the keyring of the operating system. Both are nil if no secret
// was ever added. elsewhere is the number of secrets whose values are in the keyring, and so in neither.
func (s *Sealed) Snapshot(ctx context.Context) (database *statefile.Snapshot, key []byte, elsewhere int, err error) {
	if _, err := os.Stat(s.databasePath()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, 0, nil
	}
	if database, err = statefile.OpenSnapshot(ctx, s.databasePath(), lockWait); err == nil {
		if key, elsewhere, err = s.snapshotKey(ctx, database); err != nil {
			database.Close()
		}
	}
	return database, key, elsewhere, s.explainError(err)
}

// snapshotKey returns the key for which the secrets are sealed.
func (s *Sealed) snapshotKey(ctx context.Context, database *statefile.Snapshot) (text []byte, elsewhere int, err error) {
	var names []string
	var name string
	var n int
	for err := range database.Each(ctx, []any{&name, &n}, "SELECT identity, count(*) FROM secret GROUP BY identity") {
		if err != nil {
			return nil, 0, err
		}
		if name == inKeyring {
			elsewhere = n
			continue
		}
		names = append(names, name)
	}
	switch len(names) {
	case 0:
		return nil, elsewhere, nil
	case 1:
		id, err := s.identityNamed(ctx, names[0])
		if err != nil {
			return nil, 0, err
		}
		return keyFileText(keyFile{name: names[0], id: &id}), elsewhere, nil
	}
	return nil, 0, fmt.Errorf("the secrets of %q are sealed for %d keys: see sandboxmcp vault verify", s.databasePath(), len(names))
}
