//go:build !linux

package process

import (
	"context"
	"runtime"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Backend is unavailable on this system: it needs the Linux kernel.
type Backend struct{}

// needsLinux is the reason why the backend is not usable on other systems.
var needsLinux = backends.Refuse("the process backend needs Linux, and this is "+runtime.GOOS,
	"run sandboxmcp on Linux, in a virtual machine, or with a container backend")

// New returns the backend.
func New(Config) *Backend { return &Backend{} }

// Name implements [backends.Backend].
func (*Backend) Name() string { return "process" }

// Promises implements [backends.Backend].
func (*Backend) Promises(profile string) []string { return promises(profile) }

// CanMount implements [backends.Backend].
func (*Backend) CanMount(context.Context) error { return needsLinux }

// Pools implements [backends.Backend].
func (*Backend) Pools() []backends.Pool { return nil }

// Probe implements [backends.Backend].
func (*Backend) Probe(context.Context, backends.Spec) (backends.Probe, error) {
	return backends.Probe{Backend: "process", Why: backends.ReasonOf(needsLinux)}, nil
}

// Start implements [backends.Backend].
func (*Backend) Start(context.Context, backends.Spec) (backends.Sandbox, error) {
	return nil, needsLinux
}

// Close implements [backends.Backend].
func (*Backend) Close() error { return nil }
