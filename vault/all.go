package vault

import (
	"context"
	"fmt"
	"slices"
)

// lister is implemented by stores that can list the names of their secrets.
type lister interface {
	Names(ctx context.Context, namespace string) ([]string, error)
}

// All leases every secret of a namespace that the stores can list, for redaction only: text from outside of any sandbox
// may contain a secret that no run has leased. It fails if one of them can't be read. The caller closes the lease.
func (v *Vault) All(ctx context.Context, namespace string) (*Lease, error) {
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
		l, ok := s.(lister)
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
