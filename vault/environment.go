package vault

import (
	"context"
	"fmt"
	"os"
)

type environment struct{}

// Environment returns a store that reads the environment of this process; Variable says which
// variable is which secret. A variable that is set but empty counts as not set: more often than
// not, a CI system made it so because it did not find the secret.
func Environment() Store { return environment{} }

// Get fails for names that Variable refuses.
func (environment) Get(_ context.Context, namespace, key string) ([]byte, error) {
	name, err := Variable(namespace, key)
	if err != nil {
		return nil, err
	}
	value := os.Getenv(name)
	if value == "" {
		return nil, ErrNotFound
	}
	return []byte(value), nil
}

func (environment) remedy(namespace, key string) string {
	name, err := Variable(namespace, key)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("set the environment variable %s", name)
}
