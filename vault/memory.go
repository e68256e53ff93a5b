package vault

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// Memory is a store that lives as long as the process. Its secrets are not bound. It is safe for concurrent use.
type Memory struct {
	mu     sync.RWMutex
	values map[secretName]func() []byte // functions, as in Lease
}

type secretName struct{ namespace, key string }

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{values: map[secretName]func() []byte{}}
}

// Set stores a copy of value, replacing an older value. It fails for names that can't be leased, and for values that no
// environment variable can hold.
func (m *Memory) Set(namespace, key string, value []byte) error {
	if err := CheckName(namespace, key); err != nil {
		return err
	}
	if err := checkValue(value); err != nil {
		return fmt.Errorf("secret %s of namespace %s: %w", key, namespace, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := secretName{namespace, key}
	if old, ok := m.values[at]; ok {
		clear(old())
	}
	stored := bytes.Clone(value)
	m.values[at] = func() []byte { return stored }
	return nil
}

// Get returns a copy of the value.
func (m *Memory) Get(_ context.Context, namespace, key string) ([]byte, Binding, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	value, ok := m.values[secretName{namespace, key}]
	if !ok {
		return nil, Binding{}, ErrNotFound
	}
	return bytes.Clone(value()), Binding{}, nil
}

// Names lists the keys of a namespace's secrets.
func (m *Memory) Names(_ context.Context, namespace string) (keys []string, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for at := range m.values {
		if at.namespace == namespace {
			keys = append(keys, at.key)
		}
	}
	return keys, nil
}
