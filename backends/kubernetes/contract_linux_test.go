package kubernetes

import (
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestContract runs the attacks that all backends share, in pods of an image whose configuration interferes.
func TestContract(t *testing.T) {
	c := testConfig(t)
	o := backendtest.Options{Profile: "hardened", Layers: Promised(), OwnDisks: true, OneAddress: true, Left: left(c),
		Has: []string{"python", "node", "shell", "numpy", "git", "npm", "script_command"}}
	if abi, err := ll.LandlockGetABIVersion(); err == nil && abi > 0 {
		o.Layers = append(o.Layers, backends.LayerLandlock)
	}
	o.Only = []string{"Smoke"}
	backendtest.Run(t, func(t testing.TB) backends.Backend { return newBackend(t, c, 0) }, o)
}

// left waits until the cluster has no pod of a sandbox.
func left(c Config) func(testing.TB, string) []string {
	return func(t testing.TB, id string) []string {
		hosttest.Until(t, "the cluster has nothing of "+id, func() bool {
			for _, p := range podsOf(t, c) {
				if strings.EqualFold(p.Meta.Labels["sandboxmcp.id"], id) {
					return false
				}
			}
			return true
		})
		return nil
	}
}
