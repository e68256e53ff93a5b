package vault

import (
	"context"
	"fmt"
	"slices"
)

// lister is what a Store has that can name what it holds.
type lister interface {
	names(ctx context.Context, namespace string) ([]string, error)
}

// All lends every secret of a namespace that the stores know of, for redaction only: what comes from outside of any
// sandbox may hold one that nobody lent. It fails if one of them can't be read. Whoever gets a lease closes it.
func (v *Vault) All(ctx context.Context, namespace string) (*Lease, error) {
	keys, err := v.Names(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return v.Lease(ctx, namespace, keys)
}

// Names returns the names of the secrets of a namespace that the stores know of, sorted. No value is read.
func (v *Vault) Names(ctx context.Context, namespace string) ([]string, error) {
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	var keys []string
	for _, s := range v.listers() {
		names, err := s.names(ctx, namespace)
		if err != nil {
			return nil, fmt.Errorf("list the secrets of namespace %s: %w", namespace, err)
		}
		keys = append(keys, names...)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

func (v *Vault) listers() (all []lister) {
	if v == nil {
		return nil
	}
	for _, s := range v.stores {
		if l, ok := s.(lister); ok {
			all = append(all, l)
		}
	}
	return all
}
