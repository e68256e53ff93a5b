package call

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/backendtest"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/backends/process/warm"
)

// remoteBackend is a backend whose sandboxes are at the other end of a connection.
type remoteBackend struct {
	backends.Backend
	kind string
	t    testing.TB
}

func (a remoteBackend) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	return startRemote(ctx, a.t, a.kind, spec, a.Backend.Start)
}

// TestContract checks that a backend's promises hold across a connection.
func TestContract(t *testing.T) {
	probe := process.New(process.Config{StateDir: t.TempDir()})
	defer probe.Close()
	host, err := probe.Probe(t.Context(), backends.Spec{Language: "shell"})
	if err != nil || !host.Usable {
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint("no hardened processes here: ", host.Why, err))
	}
	cgroup := slices.ContainsFunc(host.Layers, func(l backends.LayerProbe) bool { return l.Name == backends.LayerCgroup && l.InForce })
	for _, kind := range connKinds {
		t.Run(kind, func(t *testing.T) {
			// Groups of attacks that a connection could break; over a socket, only those that use descriptors.
			some := []string{"Language", "Streams", "Ends", "Files", "Changes", "Sessions", "Mains", "Gateway"}
			if kind == "socket" && hosttest.Rounds(0, 1) == 0 {
				some = []string{"Streams", "Mains", "Gateway"}
			}
			backendtest.Run(t, func(t testing.TB) backends.Backend {
				return remoteBackend{warm.New(process.New(process.Config{StateDir: t.TempDir()}), warm.Config{Ahead: 2}), kind, t}
			}, backendtest.Options{Profile: "hardened", Cgroup: cgroup, Only: some})
		})
	}
}
