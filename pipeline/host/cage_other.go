//go:build !linux

package host

// Cage is nothing here: commands run on Linux alone.
type Cage struct{}

// NewCage returns a Cage.
func NewCage(bool) *Cage { return &Cage{} }

// Close does nothing.
func (c *Cage) Close() {}
