package process

import (
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
)

// newBackend makes a backend that ends with the test.
func newBackend(t testing.TB, c Config) *Backend {
	t.Helper()
	if c.StateDir == "" {
		c.StateDir = t.TempDir()
	}
	b := New(c)
	t.Cleanup(func() { b.Close() })
	return b
}

// TestContract runs the attacks that every backend must withstand, and for the profile without
// namespaces those that its layers answer for.
func TestContract(t *testing.T) {
	probe := newBackend(t, Config{})
	probe.cgroups.find()
	for _, o := range []backendtest.Options{
		{Profile: "hardened"},
		{Profile: "landlock", Layers: withoutNamespaces},
	} {
		o.Cgroup = probe.cgroups.base != nil
		t.Run(o.Profile, func(t *testing.T) {
			backendtest.Run(t, func(t testing.TB) backends.Backend {
				b := New(Config{StateDir: t.TempDir(), Ahead: 2})
				return b
			}, o)
		})
	}
}

// TestContractWarm runs the same attacks on sandboxes that stood ready, and compares what programs see there.
func TestContractWarm(t *testing.T) {
	probe := newBackend(t, Config{})
	probe.cgroups.find()
	backendtest.Run(t, func(t testing.TB) backends.Backend {
		return New(Config{StateDir: t.TempDir(), Pool: Pool{Max: 32, Memory: 1 << 30}})
	}, backendtest.Options{Profile: "hardened", Cgroup: probe.cgroups.base != nil, Warm: true})
}
