package run_test

import (
	"encoding/json"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// Each row about a request of an identity names it, including the last row of its session.
func TestIdentityInRows(t *testing.T) {
	p, log, _ := pipelinetest.NewReal(t, nil)
	ctx := identity.With(t.Context(), identity.Identity{Name: "ci", Kind: identity.Agent, Source: identity.FromToken,
		Namespaces: identity.Only("default")})
	info, err := pipelinetest.OpenSession(ctx, p, session.New{Language: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := pipeline.Do(ctx, p, run.Request{Where: run.Where{Session: info.ID}, Code: []byte("true")}); err != nil {
		t.Fatal(err)
	}
	if _, err := pipelinetest.CloseSession(ctx, p, "", info.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := pipeline.Do(ctx, p, run.Request{Language: "shell", Name: "a.sh", Code: []byte("true"), Where: run.Where{Backend: "none"}}); err == nil {
		t.Fatal("there is no such backend")
	}
	seen := map[string]bool{}
	for row, err := range log.Rows(t.Context(), audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		var data struct{ Identity string }
		if err := json.Unmarshal(row.Data, &data); err != nil || data.Identity != "token:ci" {
			t.Errorf("%s: identity %q, %v: %s", row.Kind, data.Identity, err, row.Data)
		}
		seen[row.Kind] = true
	}
	for _, kind := range []string{event.SessionCreated, event.SessionKilled, event.ExecutionStarted, event.ExecutionCompleted, pipeline.ExecutionRefused} {
		if !seen[kind] {
			t.Errorf("no row %s", kind)
		}
	}
}
