package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"filippo.io/age"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
	"github.com/sandboxmcp/sandboxmcp/vault/keyring"
)

// InFile is the place of a vault's key in its directory; InKeyring is the other place.
const InFile = "file"

// keyringKeyService is the keyring's service of vault keys; the user is a key's name. It differs from the service of
// secrets, so that no namespace can lease a key.
const keyringKeyService = "sandboxmcp vault key"

// keyringLinePrefix starts the line of a key file that only names a key in the keyring.
const keyringLinePrefix = "keyring: "

// maxKeyFile bounds a key file: more than age-keygen writes with any comment.
const maxKeyFile = 8 << 10

// keyFile is the content of a key file.
type keyFile struct {
	name string
	id   *identity // nil if the key is in the keyring
}

// place returns where the key is, or where the first key would be created.
func (k keyFile) place() string {
	if k.id == nil && k.name != "" {
		return InKeyring
	}
	return InFile
}

// readKeyFile reads a key file, and refuses one that others can read. Its errors do not quote the content.
func readKeyFile(path string) (keyFile, error) {
	f, _, err := statefile.OpenPrivate(path, "replace the secrets if somebody has")
	if errors.Is(err, fs.ErrNotExist) {
		return keyFile{}, fmt.Errorf("%w: put %q back, as nothing else opens what is sealed for it", errNoKey, path)
	}
	if err != nil {
		return keyFile{}, fmt.Errorf("the key of the vault: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	defer clear(text)
	if err != nil {
		return keyFile{}, fmt.Errorf("the key of the vault: %w", err)
	}
	for line := range bytes.Lines(text) {
		if name, points := bytes.CutPrefix(line, []byte(keyringLinePrefix)); points {
			return keyFile{name: string(bytes.TrimSpace(name))}, nil
		}
	}
	found, err := age.ParseIdentities(bytes.NewReader(text))
	if err == nil && len(found) == 1 {
		if key, ok := found[0].(*age.X25519Identity); ok {
			id := identity{func() *age.X25519Identity { return key }}
			return keyFile{id.name(), &id}, nil
		}
	}
	return keyFile{}, fmt.Errorf("the key of the vault, %q, is not one key of the kind AGE-SECRET-KEY-1: put the right one back", path)
}

// writeKeyFile creates a key file atomically, unless it exists, with the database locked. If the file only names the
// key, the key must be in the keyring already.
func (s *Sealed) writeKeyFile(path string, k keyFile) error {
	statefile.RemoveAbandoned(s.dir, tempKeyKind, 0)
	return statefile.CreateFile(path, tempKeyKind, keyFileText(k))
}

// keyFileText returns the content of a key file.
func keyFileText(k keyFile) []byte {
	text := fmt.Sprintf("# created: %s\n# the key of this vault is in the keyring of the operating system\n%s%s\n",
		time.Now().Format(time.RFC3339), keyringLinePrefix, k.name)
	if k.id != nil {
		key := k.id.key()
		text = fmt.Sprintf("# created: %s\n# public key: %s\n%s\n", time.Now().Format(time.RFC3339), key.Recipient(), key)
	}
	return []byte(text)
}

// tempKeyKind is in the name of a key file that is being created. The database's lock allows one at a time, so a
// leftover is from a killed process.
const tempKeyKind = "identity"

// openKey returns the key, from the keyring if the file only names it.
func (s *Sealed) openKey(ctx context.Context, k keyFile) (identity, error) {
	if k.id != nil {
		return *k.id, nil
	}
	text, err := s.ring.Get(ctx, keyringKeyService, k.name)
	if errors.Is(err, keyring.ErrNotFound) {
		return identity{}, fmt.Errorf("%w: %q says that it is in the keyring of the operating system, and there it is not: put the keyring back",
			errNoKey, s.keyFilePath())
	}
	if err != nil {
		return identity{}, fmt.Errorf("the key of the vault is in the keyring: %w", err)
	}
	id, err := parseIdentity(text)
	if err == nil && id.name() != k.name {
		err = errors.New("it is not the key that is named there")
	}
	if err != nil {
		return identity{}, fmt.Errorf("the key of the vault is in the keyring, as %q says: %w", s.keyFilePath(), err)
	}
	return id, nil
}

// deleteKeyFromKeyring removes an unused key from the keyring.
func (s *Sealed) deleteKeyFromKeyring(ctx context.Context, k keyFile) error {
	if k.id != nil || k.name == "" {
		return nil
	}
	err := s.ring.Delete(ctx, keyringKeyService, k.name)
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}
