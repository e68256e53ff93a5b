package kubernetes

import (
	"path/filepath"
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// modes are fresh pods, prestarted pods, and prestarted pods with a ready interpreter.
var modes = []struct {
	name        string
	ahead       int
	some, whole []string // groups of attacks, and those under SANDBOXMCP_TEST_LONG: none that needs internet sockets
}{
	{"fresh", 0, []string{"Smoke", "Streams"}, []string{"Probe", "Language", "Streams", "Terminal", "Ends", "Contained", "Files", "Artifacts",
		"Isolation",
		"Container", "Kernel", "Limits", "Sessions", "Mains", "Ready", "Leftovers"}},
	{"pool", 2, []string{"Ends"}, []string{"Language", "Streams", "Terminal", "Sessions", "Leftovers"}},
	{"warm", 2, nil, []string{"Language", "Streams", "Ends", "Contained", "Files", "Artifacts", "Isolation", "Kernel", "Limits", "Ready",
		"Leftovers"}},
}

// TestContract runs the attacks that all backends share, in pods of an image whose configuration interferes.
func TestContract(t *testing.T) {
	c := testConfig(t)
	for _, m := range modes {
		o, stateDir := contract(t, c)
		if o.Only, o.Warm = m.some, m.name == "warm"; hosttest.Rounds(0, 1) > 0 {
			o.Only = m.whole
		}
		if o.Only == nil {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			backendtest.Run(t, func(testing.TB) backends.Backend { return newBackendIn(stateDir, c, m.ahead) }, o)
			awaitEmpty(t, c)
		})
	}
}

// awaitEmpty waits until the cluster has neither pods nor leases of closed servers.
func awaitEmpty(t *testing.T, c Config) {
	api := apiOf(t, c)
	hosttest.Until(t, "the namespace is empty", func() bool {
		var leases struct{ Items []leaseObject }
		if err := api.get(t.Context(), api.pathOf(leaseGroup, "leases", ""), nil, &leases); err != nil {
			t.Fatal(err)
		}
		return len(leases.Items)+len(podsOf(t, c)) == 0
	})
}

// awaitNoPods waits until the cluster has no pod of a sandbox.
func awaitNoPods(c Config) func(testing.TB, string) []string {
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

// contract returns the options for testing pods, and the state directory that all backends share.
func contract(t *testing.T, c Config) (backendtest.Options, string) {
	stateDir := filepath.Join(t.TempDir(), "state")
	// The kubelet mounts the first, and containerd the image's volumes.
	mounted := []string{terminationPath, "/image/volume", `/var/volume\040with\040space`}
	o := backendtest.Options{Mounted: mounted, Profile: "hardened", Layers: PromisedLayers(), OwnDisks: true, Static: true,
		MemInfo: c.RuntimeClass == "", Unseen: true, Interfaces: true, Memory: true, Known: []string{"programs_in_volumes", "key_users",
			"interfaces", "route_", "waiting_connections"}, Left: awaitNoPods(c), Dirs: []string{stateDir},
		Has: []string{"python", "node", "shell", "numpy", "git", "npm", "script_command"}}
	if abi, err := ll.LandlockGetABIVersion(); err == nil && abi > 0 {
		o.Layers = append(o.Layers, backends.LayerLandlock)
	}
	return o, stateDir
}
