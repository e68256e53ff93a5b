package leakcheck

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	_ "github.com/sandboxmcp/sandboxmcp/backends/container/inside" // the test binary also is the first process of a sandbox
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/cli"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/approval"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/packages"
	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// commandVariable makes the test binary act as the command.
const commandVariable = "SANDBOXMCP_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// bench is a pipeline wired as in a server, with its state in directories of the test.
type bench struct {
	*testing.T
	*pipeline.Pipeline
	dir     string // all stored and temporary files
	names   []string
	secrets map[string]secret
	search  *search
	audit   *audit.Log
	log     bytes.Buffer
	events  struct {
		sync.Mutex
		of map[string][]event.Event // by run
	}
	parts   []func()
	outcome outcome
	runs    sync.Map // id -> encoding
}

// newBench wires the parts as the command does for a server, with secrets in memory.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, dir: t.TempDir()}
	b.events.of = map[string][]event.Event{}
	t.Setenv("TMPDIR", b.path("temp"))
	os.MkdirAll(b.path("temp"), 0o777)
	os.Chmod(b.path("temp"), 0o777)
	backend := process.New(process.Config{StateDir: b.path("state")})
	probe, err := backend.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers})
	if err != nil || !probe.Usable {
		backend.Close()
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	b.secrets = newMint(t).secrets(hosttest.Rounds(90, 200))
	b.names, b.search = sortedKeys(b.secrets), newSearch(b.secrets)
	memory := vault.NewMemory()
	for name, s := range b.secrets {
		if err := memory.Set("default", name, []byte(s.value)); err != nil {
			t.Fatal(err)
		}
	}
	if b.audit, err = audit.Open(context.Background(), b.path("audit.db")); err != nil {
		t.Fatal(err)
	}
	store, err := packages.Open(packages.Config{Dir: b.path("packages")})
	if err != nil {
		t.Fatal(err)
	}
	results, err := results.Open(results.Config{Dir: b.path("runs")})
	if err != nil {
		t.Fatal(err)
	}
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	bus := event.NewBus()
	broker := approval.New(approval.Config{Audit: b.audit, Bus: bus})
	listened := b.collectEvents(bus)
	b.Pipeline = pipeline.New(pipeline.Config{
		Backends: []backends.Backend{backend}, Audit: b.audit, Vault: vault.New(memory), Bus: bus, Approvals: broker, Packages: store,
		Results: results,
		Temp:    b.path("tmp"), RecordConfig: pipeline.RecordConfig{Capture: pipeline.Capture{Code: true, Output: true}},
		Limits: pipeline.Bounds{Output: 8 << 20},
	})
	b.parts = []func(){func() { broker.Close() }, b.Pipeline.Close, func() { store.Close() }, func() { results.Close() }, bus.Close, listened,
		func() { backend.Close() }, func() { b.audit.Close() }, func() { slog.SetDefault(was) }}
	t.Cleanup(b.close)
	return b
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// collectEvents collects all events and returns a function that waits for the end of the bus.
func (b *bench) collectEvents(bus *event.Bus) func() {
	listening, _, _ := bus.Listen(event.Filter{Namespace: event.All}, 1<<14, 0)
	events := listening.Events()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range events {
			b.events.Lock()
			b.events.of[e.Run] = append(b.events.of[e.Run], e)
			b.events.Unlock()
		}
	}()
	return func() { <-done }
}

func (b *bench) close() {
	for _, end := range b.parts {
		end()
	}
	b.parts = nil
}

// runRequest runs a request with all secrets leased, and collects its output.
func (b *bench) runRequest(from, how string, q run.Request) pipeline.Outcome {
	b.Helper()
	var live bytes.Buffer
	var mu sync.Mutex
	q.Stdout, q.Stderr = &locked{&mu, &live}, &locked{&mu, &live}
	if q.Session == "" {
		q.Artifacts = filepath.Join(b.dir, "saved", how+" "+from)
		os.MkdirAll(q.Artifacts, 0o755)
	}
	if q.Secrets == nil {
		q.Secrets = b.names
	}
	_, res, err := pipeline.Do(b.Context(), b.Pipeline, q)
	if err != nil {
		b.Fatalf("%s, %s: %v", how, from, err)
	}
	b.collect(from, how, res.ID, res)
	b.outcome.append(from, how+" live", live.String())
	if q.Artifacts != "" {
		b.collectFiles(from, how+" artifact", q.Artifacts)
	}
	return res
}

type locked struct {
	*sync.Mutex
	w *bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.w.Write(p)
}
