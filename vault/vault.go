// Package vault leases secrets to one run and redacts them from its output.
//
// A Vault reads the values that a run may have from its stores. The Lease that it returns knows the values until it
// is closed, and finds each in text, in the encodings that programs use: see README.md, which also lists the
// undetected encodings. No type of this package shows a value when it is printed, logged or encoded.
//
// The program has only a placeholder of a secret that is bound to hosts, and can't leak its value. Redaction concerns
// the other secrets, and responses of hosts.
package vault

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// ErrNotFound is the error of Store.Get for a secret that the store does not hold; Lease wraps it when
// no store holds the secret.
var ErrNotFound = errors.New("not in the vault")

// MaxValue is the size of the longest value that can be leased, in bytes: half of Linux's limit for one
// environment string.
const MaxValue = 64 << 10

// Store holds secrets. Get returns a copy of a value, which the caller may wipe, and its binding; or ErrNotFound, also
// for a name that the store could not hold. Its errors never contain a value. It is safe for concurrent use.
type Store interface {
	Get(ctx context.Context, namespace, key string) (value []byte, to Binding, err error)
}

// explainingStore is implemented by stores that can say how to add a secret, or why a secret can't be added.
type explainingStore interface {
	howToAdd(namespace, key string) remedy.Text
}

// Vault leases secrets from its stores. A nil or empty Vault has no secrets.
type Vault struct {
	stores []Store
	pages  func() *pages // a function, as in Lease
}

// New returns a vault that reads from the stores in this order; the first store that has a secret provides it.
func New(stores ...Store) *Vault {
	p := &pages{}
	return &Vault{slices.Clone(stores), func() *pages { return p }}
}

// Lease returns a lease of the named secrets of a namespace for one run, or none: the error names the key that can't be
// leased, and how to add it. Duplicate keys are leased once. The caller closes the lease.
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
		s, err := v.readSecret(ctx, namespace, key)
		if err != nil {
			wipeSecrets(secrets)
			return nil, err
		}
		secrets = append(secrets, s)
	}
	return newLease(secrets, v.pages()), nil
}

// Value is a secret that a caller supplies.
type Value struct {
	Name   string
	Value  []byte
	To     Binding
	Header string // see Bound
}

// LeaseValues returns a lease of values that are in no store. The caller closes the lease.
func (v *Vault) LeaseValues(values []Value) (*Lease, error) {
	var secrets []secret
	for _, one := range values {
		if err := cmp.Or(checkKey(one.Name), checkValue(one.Value), one.To.validate(one.Value)); err != nil {
			wipeSecrets(secrets)
			return nil, fmt.Errorf("secret %s: %w", one.Name, err)
		}
		secrets = append(secrets, secret{name: one.Name, value: bytes.Clone(one.Value), to: one.To.clone(), header: one.Header})
	}
	return newLease(secrets, v.pages()), nil
}

// readSecret reads one secret, and checks that a program can receive its value.
func (v *Vault) readSecret(ctx context.Context, namespace, key string) (secret, error) {
	if err := checkKey(key); err != nil {
		return secret{}, err
	}
	value, to, err := v.readFromStores(ctx, namespace, key)
	if err != nil {
		return secret{}, err
	}
	if err := cmp.Or(checkValue(value), to.validate(value)); err != nil {
		clear(value)
		return secret{}, fmt.Errorf("secret %s of namespace %s: %w", key, namespace, err)
	}
	return secret{name: key, value: value, to: to.clone()}, nil
}

// readFromStores reads a secret from the first store that has it.
func (v *Vault) readFromStores(ctx context.Context, namespace, key string) ([]byte, Binding, error) {
	var stores []Store
	if v != nil {
		stores = v.stores
	}
	var do remedy.Text
	for _, s := range stores {
		value, to, err := s.Get(ctx, namespace, key)
		if err == nil {
			return value, to, nil
		}
		if !errors.Is(err, ErrNotFound) {
			return nil, Binding{}, fmt.Errorf("secret %s of namespace %s: %w", key, namespace, err)
		}
		if e, ok := s.(explainingStore); ok {
			if do != nil {
				do = append(do, "; or ")
			}
			do = append(do, e.howToAdd(namespace, key)...)
		}
	}
	if len(stores) == 0 {
		do = remedy.Text{"it has no store; configure one"}
	}
	err := fmt.Errorf("secret %s of namespace %s is %w", key, namespace, ErrNotFound)
	if do != nil {
		err = remedy.For(err, do...)
	}
	return nil, Binding{}, err
}

// listingStore is implemented by stores that can list the names of their secrets.
type listingStore interface {
	Names(ctx context.Context, namespace string) ([]string, error)
}

// LeaseAll leases every secret of a namespace that the stores can list, for redaction only: text from outside of
// any sandbox may contain a secret that no run has leased. It fails if one of them can't be read. The caller closes the
// lease.
func (v *Vault) LeaseAll(ctx context.Context, namespace string) (*Lease, error) {
	keys, err := v.Names(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return v.Lease(ctx, namespace, keys)
}

// Names returns the sorted names of a namespace's secrets that the stores can list. It reads no value.
func (v *Vault) Names(ctx context.Context, namespace string) ([]string, error) {
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, nil
	}
	var keys []string
	for _, s := range v.stores {
		l, ok := s.(listingStore)
		if !ok {
			continue
		}
		names, err := l.Names(ctx, namespace)
		if err != nil {
			return nil, fmt.Errorf("list the secrets of namespace %s: %w", namespace, err)
		}
		keys = append(keys, names...)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}
