//go:build !linux

package warm

import "github.com/sandboxmcp/sandboxmcp/backends/process"

// Backend is package process's, which is unavailable on this system.
type Backend struct{ *process.Backend }

// New returns the backend.
func New(b *process.Backend, _ Config) *Backend { return &Backend{b} }

// Warm does nothing.
func (*Backend) Warm() {}
