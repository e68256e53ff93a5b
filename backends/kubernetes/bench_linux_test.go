package kubernetes

import (
	"context"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/container"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// BenchmarkLease measures leasing an idle pod, from the server's own pool and from another server's, beside an exec
// of /bin/true by the same client.
func BenchmarkLease(b *testing.B) {
	c := testConfig(b)
	maker := newBackend(b, c, 4)
	closeLater(b, maker)
	spec := backends.Spec{Language: "shell", Program: &backends.Command{Args: []string{"bash"}}}
	times := map[string][]time.Duration{}
	lease := func(kind string, of testBackend) backends.Sandbox {
		spec.ID = ulid.Make().String()
		begun := time.Now()
		s, err := of.Start(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		times[kind] = append(times[kind], time.Since(begun))
		return s
	}
	lease("cold", maker).Close()
	for b.Loop() {
		hosttest.Until(b, "two pods are idle", func() bool { return maker.Pools()[0].Ready > 1 })
		own := lease("own", maker)
		begun := time.Now()
		trueIn(b, maker.engine.cluster)
		times["exec"] = append(times["exec"], time.Since(begun))
		taker := newBackend(b, c, 1) // has no pod of its own
		taker.Backend.Backend = container.New(timedEngine{taker.engine, times}, container.Config{Images: testImages(), Pull: "never",
			StateDir: filepath.Join(b.TempDir(), "state"), Ahead: 1})
		if _, err := taker.engine.Info(b.Context()); err != nil {
			b.Fatal(err)
		}
		lease("other", taker).Close()
		own.Close()
		if err := taker.Close(); err != nil {
			b.Fatal(err)
		}
	}
	report(b, times)
}

// report reports medians.
func report(b *testing.B, times map[string][]time.Duration) {
	for kind, all := range times {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms/"+kind)
	}
}

// timedEngine measures the parts of leasing another server's pod: finding and claiming it, and opening its stream.
// The init takes the rest.
type timedEngine struct {
	*kubernetes
	times map[string][]time.Duration
}

// LeaseIdle implements [container.Shared].
func (e timedEngine) LeaseIdle(ctx context.Context, of container.Container) (string, error) {
	begun := time.Now()
	id, err := e.kubernetes.LeaseIdle(ctx, of)
	e.times["other's_claim"] = append(e.times["other's_claim"], time.Since(begun))
	return id, err
}

// Attach implements [container.Engine].
func (e timedEngine) Attach(ctx context.Context, id string, stderr io.Writer) (io.ReadWriteCloser, error) {
	begun := time.Now()
	conn, err := e.kubernetes.Attach(ctx, id, stderr)
	if len(e.times["other's_stream"]) < len(e.times["other's_claim"]) { // not the next idle pod's
		e.times["other's_stream"] = append(e.times["other's_stream"], time.Since(begun))
	}
	return conn, err
}

// trueIn executes /bin/true in the program's container of any of our pods, as kubectl does.
func trueIn(b *testing.B, c *cluster) {
	var id string
	c.pods.mu.Lock()
	for name, p := range c.pods.pods {
		if ready, _ := checkRunning(p.pod); ready && !p.gone {
			id = name
		}
	}
	c.pods.mu.Unlock()
	params := url.Values{"container": {programName}, "stdout": {"true"}, "stderr": {"true"}, "command": {"/usr/bin/id"}}
	at := *c.base
	at.Path, at.RawQuery = strings.TrimSuffix(at.Path, "/")+c.pathOf("v1", "pods", id)+"/exec", params.Encode()
	conn, err := c.webSocket(b.Context(), at.String(), io.Discard)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadAll(conn); err != nil {
		b.Fatal(err)
	}
}
