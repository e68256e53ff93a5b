//go:build !linux

package files

import (
	"context"
	"errors"
	"fmt"
)

type identity struct{}

func identities([]string) []identity { return nil }

var errElsewhere = fmt.Errorf("access to files of the host needs Linux: %w", errors.ErrUnsupported)

// Check fails: see the package comment.
func (a Access) Check(string, bool) error { return errElsewhere }

// Read fails: see the package comment.
func (a Access) Read(context.Context, string) ([]byte, error) { return nil, errElsewhere }

// Write fails: see the package comment.
func (a Access) Write(context.Context, string, []byte, string) (Written, error) {
	return Written{}, errElsewhere
}

// List fails: see the package comment.
func (a Access) List(context.Context, string, bool, int) ([]Entry, bool, error) {
	return nil, false, errElsewhere
}
