package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
	"github.com/sandboxmcp/sandboxmcp/vault/keyring"
)

// The names of secrets in the keyring: people may store secrets there under these names.
const keyringService = "sandboxmcp"

func keyringUser(namespace, key string) string { return namespace + "/" + key } // neither has a slash

// inKeyring is the key name in the row of a secret whose value is in the keyring.
const inKeyring = "keyring"

// itemMark starts the keyring items of Sealed. The content of a sealed row follows, so that changing a secret's binding
// needs the keyring.
const itemMark = "sandboxmcp secret 1 "

var errPutByHand = remedy.For(errors.New("what the keyring holds was put there by hand, in the place of the secret that was added, and "+
	"is not bound as that was"),
	remedy.AddAgain, ", or delete it and put it there once more")

// Keyring returns the store that reads the keyring of the operating system. A secret that was put there with Add is
// bound as it was added, as long as the directory's vault.db lists it. A secret that was put there by hand, under the
// service sandboxmcp and the user NAMESPACE/KEY, is not bound.
func Keyring(dir string) Store { return ringStore{NewSealed(dir, nil)} }

type ringStore struct{ *Sealed }

// Get fails without a keyring: a later store of the vault might have another secret of the name.
func (s ringStore) Get(ctx context.Context, namespace, key string) ([]byte, Binding, error) {
	r, err := s.readRow(ctx, namespace, key)
	hasRow := err == nil && r.identity == inKeyring
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, Binding{}, err
	}
	if hasRow {
		e, value, err := s.readFromKeyring(ctx, r)
		return value, e.Binding, err
	}
	text, err := s.ring.Get(ctx, keyringService, keyringUser(namespace, key))
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return nil, Binding{}, ErrNotFound
	case err != nil:
		return nil, Binding{}, err
	case strings.HasPrefix(text, itemMark): // of another directory, or left by a killed process
		return nil, Binding{}, ErrNotFound
	}
	value := []byte(text)
	if line, cut := bytes.CutSuffix(value, []byte("\n")); cut { // as stored with echo(1)
		value = bytes.TrimSuffix(line, []byte("\r"))
	}
	return value, Binding{}, nil
}

func (ringStore) howToAdd(namespace, key string) remedy.Text {
	return remedy.Text{"put it into the keyring with ", remedy.Command.With("sandboxmcp vault add " + key + " --namespace " + namespace +
		" --store keyring")}
}

// readFromKeyring reads the value of a row from the keyring.
func (s *Sealed) readFromKeyring(ctx context.Context, r row) (Entry, []byte, error) {
	text, err := s.ring.Get(ctx, keyringService, keyringUser(r.namespace, r.key))
	if errors.Is(err, keyring.ErrNotFound) {
		return Entry{}, nil, remedy.For(fmt.Errorf("it is %w any more", err), remedy.AddAgain, ", or delete it")
	}
	if err != nil {
		return Entry{}, nil, err
	}
	packed, ours := strings.CutPrefix(text, itemMark)
	if !ours {
		return Entry{}, nil, errPutByHand
	}
	e, value, err := decodeSecret([]byte(packed), r)
	e.Store = InKeyring
	return e, value, err
}

// storeInKeyring puts a secret into the keyring, after recording the change. It overwrites an existing item only if
// replace is set.
func (s *Sealed) storeInKeyring(ctx context.Context, c Change, value []byte, replace bool) error {
	at := keyringUser(c.Namespace, c.Key)
	switch _, err := s.ring.Get(ctx, keyringService, at); {
	case err == nil && !replace:
		return fmt.Errorf("%w: the keyring holds one, from another directory or put there by hand", ErrExists)
	case err != nil && !errors.Is(err, keyring.ErrNotFound):
		return err
	}
	packed, err := encodeSecret(c.Entry, value)
	if err != nil {
		return err
	}
	defer clear(packed)
	if err := s.record(ctx, c); err != nil {
		return err
	}
	return s.ring.Set(ctx, keyringService, at, itemMark+string(packed))
}

// deleteFromKeyring deletes a secret that Sealed stored from the keyring.
func (s *Sealed) deleteFromKeyring(ctx context.Context, namespace, key string) error {
	at := keyringUser(namespace, key)
	text, err := s.ring.Get(ctx, keyringService, at)
	if err == nil && strings.HasPrefix(text, itemMark) {
		err = s.ring.Delete(ctx, keyringService, at)
	}
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// encodeSecret encodes a secret for sealing, or for the keyring.
func encodeSecret(e Entry, value []byte) ([]byte, error) {
	return json.Marshal(sealedContent{e.Namespace, e.Key, e.Hosts, e.Require, e.Body, e.Added, value})
}

// decodeSecret decodes a packed secret, and checks that its names are those of the row.
func decodeSecret(text []byte, r row) (Entry, []byte, error) {
	var c sealedContent
	if err := json.Unmarshal(text, &c); err != nil || c.Namespace != r.namespace || c.Key != r.key {
		clear(c.Value)
		return Entry{}, nil, errDamaged
	}
	return Entry{c.Namespace, c.Key, Binding{c.Hosts, c.Require, c.Body}, c.Added, InSealed}, c.Value, nil
}
