package pipelinetest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// NewReal returns a pipeline with real sandboxes.
func NewReal(t testing.TB, change func(*pipeline.Config)) (*pipeline.Pipeline, *FlakyLog, *vault.Memory) {
	t.Helper()
	file, err := audit.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	b := process.New(process.Config{StateDir: t.TempDir()})
	probe, err := b.Probe(t.Context(), backends.Spec{Require: backends.ContainmentLayers})
	if err != nil || !probe.Usable {
		b.Close()
		hosttest.SkipMissing(t, "sandbox", fmt.Sprint(err, probe.Why))
	}
	log, memory := &FlakyLog{Log: file}, vault.NewMemory()
	cfg := pipeline.Config{Backends: []backends.Backend{b}, Audit: log, Vault: vault.New(memory)}
	if change != nil {
		change(&cfg)
	}
	p := pipeline.New(cfg)
	t.Cleanup(func() { p.Close(); b.Close(); file.Close() })
	return p, log, memory
}

func OpenSession(ctx context.Context, p *pipeline.Pipeline, q session.New) (session.Info, error) {
	info, _, err := pipeline.Do(ctx, p, q)
	return info, err
}

func CloseSession(ctx context.Context, p *pipeline.Pipeline, namespace, id string) (session.Info, error) {
	info, _, err := pipeline.Do(ctx, p, session.End{Namespace: namespace, Session: id})
	return info, err
}

func Open(t testing.TB, p *pipeline.Pipeline, q session.New) session.Info {
	t.Helper()
	if q.Language == "" {
		q.Language = "python"
	}
	info, err := OpenSession(t.Context(), p, q)
	if err != nil {
		t.Fatalf("open session: %v", err)
	}
	return info
}

// Cell runs code in a session, and ends the test if that fails.
func Cell(t testing.TB, p *pipeline.Pipeline, id, code string, change func(*run.Request)) pipeline.Outcome {
	t.Helper()
	q := run.Request{Where: run.Where{Session: id}, Code: []byte(code)}
	if change != nil {
		change(&q)
	}
	_, res, err := pipeline.Do(t.Context(), p, q)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return res
}

func Kinds(t testing.TB, log *FlakyLog) []string {
	t.Helper()
	var all []string
	for row, err := range log.Rows(context.Background(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, row.Kind)
	}
	return all
}

// RowCounters counts the rows of the log by kind.
func RowCounters(t *testing.T, log *FlakyLog) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, kind := range Kinds(t, log) {
		n[kind]++
	}
	return n
}

// Rows returns the rows of a kind as text.
func Rows(t testing.TB, log *FlakyLog, kind string) (all []string) {
	t.Helper()
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if row.Kind == kind {
			all = append(all, fmt.Sprintf("%s %s", row.Run, row.Data))
		}
	}
	return all
}
