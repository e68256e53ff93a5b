package install

import (
	"context"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// elsewhere is a backend on another machine, in a network that leads out whatever is asked for: it shows nothing of
// this machine, and has no gateway.
type elsewhere struct{ backends.Backend }

func (elsewhere) CanMount(context.Context) error {
	return backends.Refuse("it runs elsewhere", "send files")
}

func (b elsewhere) Start(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
	switch {
	case len(spec.Mounts) > 0:
		return nil, b.CanMount(ctx)
	case len(spec.Gateway) > 0:
		return nil, &backends.Refusal{Layer: backends.LayerNet, Reason: "the network is open"}
	}
	return b.Backend.Start(ctx, spec)
}

// TestSessionsElsewhere opens sessions on a backend with neither packages nor a gateway, while nobody has asked for
// these, and refuses requests for them: packages, and names.
func TestSessionsElsewhere(t *testing.T) {
	p, _, _ := pipelinetest.NewReal(t, func(c *pipeline.Config) {
		store, err := packages.Open(packages.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		broker := approval.New(approval.Config{Audit: c.Audit})
		t.Cleanup(func() { store.Close(); broker.Close() })
		c.Approvals, c.Packages, c.Backends = broker, store, []backends.Backend{elsewhere{c.Backends[0]}}
	})
	for range 2 { // the second one is not tried with a gateway
		s := pipelinetest.Open(t, p, session.New{})
		if r := pipelinetest.Cell(t, p, s.ID, "6 * 7", nil); r.Value["text/plain"] != "42" {
			t.Errorf("got %v", r.Value)
		}
		_, _, err := pipeline.Do(t.Context(), p, Request{Session: s.ID, Packages: []string{"tone"}})
		if err == nil || !strings.Contains(err.Error(), "packages can't be installed here: it runs elsewhere") {
			t.Errorf("packages: %v", err)
		}
		if _, _, err := pipeline.Do(t.Context(), p, run.Request{
			Where: run.Where{Session: s.ID}, Code: []byte("1"), Reach: run.Reach{Allow: []string{"example.com"}},
		}); err == nil {
			t.Error("names that can't be reached are allowed")
		}
	}
	if _, err := pipelinetest.OpenSession(t.Context(), p, session.New{Language: "python", Allow: []string{"example.com"}}); err == nil {
		t.Error("a session that asks for names was opened without")
	}
	_, res, err := pipeline.Do(t.Context(), p, run.Request{Language: "python", Code: []byte("print(6 * 7)")})
	if err != nil || res.Stdout != "42\n" {
		t.Errorf("a run: %q, %v", res.Stdout, err)
	}
}
