// Package vault lends secrets to one run and takes them out of what it says.
//
// A Vault asks its stores for the values that a run may have; the Lease that it returns knows them
// until it is closed, and finds each of them in text, in the encodings that programs use without
// thinking: JSON, percent, hex and base64. No type of this package shows a value when it is
// printed, logged or encoded.
//
// This is against accidents. A program that wants to give a secret away can: reversed, encoded
// twice, compressed, in upper case, a letter a line. Of what happens by accident, these are not found:
//
//   - a part of a value, other than a whole line of a key: the password in a URL, a value in a JSON
//     document, the first half that a killed program had printed;
//   - hex with blanks or colons between the bytes, base32, octal, UTF-16, HTML entities;
//   - a value that is not UTF-8 after a program replaced what is not by U+FFFD.
//
// Beside a Mark in base64, at most 4 bits of the value's first byte are left, in the character that
// it shares with what stands before it.
package vault

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrNotFound is what a Store returns for a secret that it does not hold, and what Lease wraps when
// no store holds it.
var ErrNotFound = errors.New("not in the vault")

// MaxValue is the longest value that can be lent, in bytes: half of what Linux takes as one
// environment string.
const MaxValue = 64 << 10

// Store holds secrets. Get returns a copy, which the caller may wipe, or ErrNotFound. Its errors
// never hold a value. Many goroutines may call it at once.
type Store interface {
	Get(ctx context.Context, namespace, key string) ([]byte, error)
}

// remedy is what a Store has that can say how to put a secret there.
type remedy interface {
	remedy(namespace, key string) string
}

// Vault lends secrets out of its stores. A nil or empty Vault has none to lend.
type Vault struct {
	stores []Store
}

// New returns a vault that asks the stores in this order; the first that holds a secret gives it.
func New(stores ...Store) *Vault {
	return &Vault{stores: slices.Clone(stores)}
}

// Lease lends the named secrets of a namespace to one run. It is all or nothing: the error names
// the key that can't be lent, and what to set. A key given twice is lent once. Whoever gets a lease
// closes it.
func (v *Vault) Lease(ctx context.Context, namespace string, keys []string) (*Lease, error) {
	if len(keys) == 0 {
		return &Lease{}, nil
	}
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	var secrets []secret
	for _, key := range keys {
		if slices.ContainsFunc(secrets, func(s secret) bool { return s.name == key }) {
			continue
		}
		value, err := v.find(ctx, namespace, key)
		if err != nil {
			wipe(secrets)
			return nil, err
		}
		secrets = append(secrets, secret{key, value})
	}
	return newLease(secrets), nil
}

// find returns the value of one secret, and makes sure that a program can be given it.
func (v *Vault) find(ctx context.Context, namespace, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	value, err := v.get(ctx, namespace, key)
	if err != nil {
		return nil, err
	}
	if err := checkValue(value); err != nil {
		clear(value)
		return nil, fmt.Errorf("secret %s of namespace %s: %w", key, namespace, err)
	}
	return value, nil
}

// get asks one store after the other.
func (v *Vault) get(ctx context.Context, namespace, key string) ([]byte, error) {
	var stores []Store
	if v != nil {
		stores = v.stores
	}
	hint := ""
	for _, s := range stores {
		value, err := s.Get(ctx, namespace, key)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("secret %s of namespace %s: %w", key, namespace, err)
		}
		if r, ok := s.(remedy); ok && hint == "" {
			hint = ": " + r.remedy(namespace, key)
		}
	}
	if len(stores) == 0 {
		hint = ": it has no store; configure one"
	}
	return nil, fmt.Errorf("secret %s of namespace %s is %w%s", key, namespace, ErrNotFound, hint)
}
