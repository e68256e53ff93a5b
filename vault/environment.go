package vault

import (
	"context"
	"os"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

type environment struct{}

// Environment returns a store that reads the environment of this process; Variable maps a secret to its variable. A
// variable that is set but empty counts as not set: usually a CI system set it because the secret was not found. Its
// secrets are not bound.
func Environment() Store { return environment{} }

// Get returns ErrNotFound for names that Variable refuses: another store may have them.
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

func (environment) howToAdd(namespace, key string) remedy.Text {
	name, err := Variable(namespace, key)
	if err != nil {
		return remedy.Text{err.Error()}
	}
	return remedy.Text{"set the environment variable ", name}
}

// Names lists the keys of the variables that hold a namespace's secrets.
func (environment) Names(_ context.Context, namespace string) (keys []string, err error) {
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
