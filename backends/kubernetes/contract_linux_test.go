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
	o := contract(c)
	for _, m := range []struct {
		name   string
		ahead  int
		groups []string
	}{
		{"fresh", 0, []string{"Smoke", "Streams"}},
		{"pool", 2, []string{"Ends"}},
	} {
		if o.Only = m.groups; hosttest.Long(0, 1) > 0 {
			o.Only = []string{"Probe", "Language", "Streams", "Terminal", "Ends", "Contained", "Files", "Artifacts", "Isolation", "Container", "Kernel", "Limits",
				"Sessions", "Mains", "Ready", "Leftovers"} // without those that need sockets of the internet
		}
		t.Run(m.name, func(t *testing.T) {
			backendtest.Run(t, func(t testing.TB) backends.Backend { return newBackend(t, c, m.ahead) }, o)
		})
	}
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

// contract are the options of pods.
func contract(c Config) backendtest.Options {
	// The kubelet mounts the first, and containerd the volumes of the image.
	mounted := []string{terminationPath, "/image/volume", `/var/volume\040with\040space`}
	o := backendtest.Options{Mounted: mounted, Profile: "hardened", Layers: Promised(), OwnDisks: true, Interfaces: true, Memory: true, Known: []string{"programs_in_volumes", "key_users", "interfaces", "route_"}, Left: left(c),
		Has: []string{"python", "node", "shell", "numpy", "git", "npm", "script_command"}}
	if abi, err := ll.LandlockGetABIVersion(); err == nil && abi > 0 {
		o.Layers = append(o.Layers, backends.LayerLandlock)
	}
	return o
}
