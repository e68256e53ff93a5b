package vault

import (
	"context"
	"fmt"
	"os"
	"strings"
)

type environment struct{}

// Environment returns a store that reads the environment of this process; Variable says which
// variable is which secret. A variable that is set but empty counts as not set: more often than
// not, a CI system made it so because it did not find the secret. Its secrets are bound to nothing.
func Environment() Store { return environment{} }

// Get finds nothing under names that Variable refuses: another store may have them.
func (environment) Get(_ context.Context, namespace, key string) ([]byte, Binding, error) {
	name, err := Variable(namespace, key)
	if err != nil {
		return nil, Binding{}, ErrNotFound
	}
	value := os.Getenv(name)
	if value == "" {
		return nil, Binding{}, ErrNotFound
	}
	return []byte(value), Binding{}, nil
}

func (environment) remedy(namespace, key string) string {
	name, err := Variable(namespace, key)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("set the environment variable %s", name)
}

func (environment) names(_ context.Context, namespace string) (keys []string, err error) {
	name, err := Variable(namespace, "X")
	if err != nil {
		return nil, nil // no variable can be of this namespace
	}
	prefix := strings.TrimSuffix(name, "X")
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		key, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" {
			continue
		}
		if own, err := Variable(namespace, key); err == nil && own == name {
			keys = append(keys, key)
		}
	}
	return keys, nil
}
