package kubernetes

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// limitPods sets a namespace's pod quota, and waits until it is in force.
func limitPods(t *testing.T, api *client, n string) {
	t.Helper()
	quota := map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": "few"},
		"spec": map[string]any{"hard": map[string]string{"pods": n}}}
	if err := api.call(t.Context(), http.MethodPost, api.pathOf("v1", "resourcequotas", ""), nil, quota, nil); err != nil {
		t.Fatal(err)
	}
	hosttest.Until(t, "the quota holds", func() bool {
		var o struct {
			Status struct{ Hard map[string]string }
		}
		return api.get(t.Context(), api.pathOf("v1", "resourcequotas", "few"), nil, &o) == nil && o.Status.Hard["pods"] == n
	})
}

// TestFullNamespace has two tenants of one server share a namespace with room for exactly the server's parallel
// runs: the tenant with few runs does not wait for all of the other's, and no run is refused because of idle or
// terminating pods.
func TestFullNamespace(t *testing.T) {
	c := testConfig(t)
	limitPods(t, apiOf(t, c), "2")
	b := newBackend(t, c, 1)
	closeLater(t, b)
	queue := pipeline.NewQueue(2, 100)
	var mu sync.Mutex
	var order []string
	run := func(tenant, language string, waits func()) {
		leave, err := queue.Acquire(t.Context(), tenant, 1, func(int) { waits() })
		if err != nil {
			t.Error(err)
			return
		}
		defer leave()
		mu.Lock()
		order = append(order, tenant)
		mu.Unlock()
		s, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: language})
		if err != nil {
			t.Errorf("%s: %v", tenant, err)
			return
		}
		defer s.Close()
		if r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", "true"}}, backends.Streams{}); err != nil ||
			r.Ended != backends.EndedOK {
			t.Errorf("%s: ended %s, %v", tenant, r.Ended, err)
		}
	}
	var all sync.WaitGroup
	var waiting sync.WaitGroup
	waiting.Add(6)
	for range 8 {
		all.Go(func() { run("greedy", "shell", waiting.Done) })
	}
	waiting.Wait()
	for range 2 {
		all.Go(func() { run("modest", "python", func() {}) }) // its pods are of another kind than the idle ones
	}
	all.Wait()
	last := 0
	for i, tenant := range order {
		if tenant == "modest" {
			last = i
		}
	}
	if last > 6 || len(order) != 10 {
		t.Errorf("they ran in the order %q", order)
	}
}

// TestNoRoom fills a namespace with pods in use: a run is refused with that reason.
func TestNoRoom(t *testing.T) {
	c := testConfig(t)
	limitPods(t, apiOf(t, c), "1")
	b := newBackend(t, c, 1)
	closeLater(t, b)
	s := start(t, b, backends.Spec{Language: "shell", Keep: true})
	_, err := b.Start(t.Context(), backends.Spec{ID: ulid.Make().String(), Language: "shell"})
	if why := backends.ReasonOf(err); err == nil || !strings.Contains(why.String(), "exceeded quota") {
		t.Errorf("got %v", err)
	}
	if o := execute(t, s, "bash", "-c", "echo alive"); o.stdout != "alive\n" {
		t.Errorf("got %q", o.stdout)
	}
}
