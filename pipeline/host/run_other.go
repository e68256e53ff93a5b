//go:build !linux

package host

import (
	"context"
	"errors"
	"fmt"
)

// Exec needs Linux, where the end of all descendants can be known.
func (r Run) Exec(context.Context) (End, error) {
	return End{}, fmt.Errorf("run a command on the host: %w", errors.ErrUnsupported)
}

// Cage has no function here.
type Cage struct{}

// NewCage returns a Cage.
func NewCage(bool) *Cage { return &Cage{} }

// Close does nothing.
func (c *Cage) Close() {}
