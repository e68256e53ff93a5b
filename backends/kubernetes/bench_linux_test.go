package kubernetes

import (
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// BenchmarkLease measures a lease from the pool of idle pods, beside a bare exec of true by the same client.
func BenchmarkLease(b *testing.B) {
	c := testConfig(b)
	backend := newBackend(b, c, 4)
	closeLater(b, backend)
	spec := backends.Spec{Language: "shell", Program: &backends.Command{Args: []string{"bash"}}}
	var leases, execs []time.Duration
	for b.Loop() {
		hosttest.Until(b, "a pod is idle", func() bool {
			pools := backend.Pools()
			return len(leases) == 0 || len(pools) > 0 && pools[0].Ready > 0
		})
		spec.ID = ulid.Make().String()
		begun := time.Now()
		s, err := backend.Start(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		leases = append(leases, time.Since(begun))
		begun = time.Now()
		trueIn(b, backend.engine.cluster)
		execs = append(execs, time.Since(begun))
		s.Close()
	}
	if len(leases) > 1 {
		leases = leases[1:] // the first started cold
	}
	slices.Sort(leases)
	slices.Sort(execs)
	b.ReportMetric(float64(leases[len(leases)/2].Microseconds())/1000, "ms/lease")
	b.ReportMetric(float64(execs[len(execs)/2].Microseconds())/1000, "ms/exec")
}

// trueIn executes true in the program's container of any of our pods, as kubectl does.
func trueIn(b *testing.B, c *cluster) {
	var id string
	c.pods.mu.Lock()
	for name, p := range c.pods.pods {
		if ready, _ := running(p.pod); ready && !p.gone {
			id = name
		}
	}
	c.pods.mu.Unlock()
	params := url.Values{"container": {programName}, "stdout": {"true"}, "stderr": {"true"}, "command": {"/usr/bin/id"}}
	at := *c.base
	at.Path, at.RawQuery = strings.TrimSuffix(at.Path, "/")+c.in("v1", "pods", id)+"/exec", params.Encode()
	conn, err := c.webSocket(b.Context(), at.String(), io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadAll(conn); err != nil {
		b.Fatal(err)
	}
}
