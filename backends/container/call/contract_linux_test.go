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

// afar is a backend whose sandboxes are at the other end of a line.
type afar struct {
	backends.Backend
	kind string
	t    testing.TB
}

func (a afar) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	return start(ctx, a.t, a.kind, spec, a.Backend.Start)
}

// TestContract has all that a backend promises hold through a line, too.
func TestContract(t *testing.T) {
	probe := process.New(process.Config{StateDir: t.TempDir()})
	defer probe.Close()
	host, err := probe.Probe(t.Context(), backends.Spec{Language: "shell"})
	if err != nil || !host.Usable {
		hosttest.Missing(t, "sandbox", fmt.Sprint("no hardened processes here: ", host.Why, err))
	}
	cgroup := slices.ContainsFunc(host.Layers, func(l backends.LayerProbe) bool { return l.Name == backends.LayerCgroup && l.InForce })
	for _, kind := range connKinds {
		t.Run(kind, func(t *testing.T) {
			// What a line could get wrong, and of a socket what it hands over in another way.
			some := []string{"Language", "Streams", "Ends", "Files", "Changes", "Sessions", "Mains", "Gateway"}
			if kind == "socket" && hosttest.Long(0, 1) == 0 {
				some = []string{"Streams", "Mains", "Gateway"}
			}
			backendtest.Run(t, func(t testing.TB) backends.Backend {
				return afar{warm.New(process.New(process.Config{StateDir: t.TempDir()}), warm.Config{Ahead: 2}), kind, t}
			}, backendtest.Options{Profile: "hardened", Cgroup: cgroup, Only: some})
		})
	}
}
