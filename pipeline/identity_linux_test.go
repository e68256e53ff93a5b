package pipeline

import (
	"encoding/json"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Each row about what an identity asked for names it, also the last one of its session.
func TestIdentityInRows(t *testing.T) {
	p, log, _ := newReal(t, nil)
	ctx := identity.With(t.Context(), identity.Identity{Name: "ci", Kind: identity.Agent, Source: identity.FromToken, Namespaces: identity.Only("default")})
	info, err := openSession(ctx, p, NewSession{Language: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Do(ctx, p, Request{Where: Where{Session: info.ID}, Code: []byte("true")}); err != nil {
		t.Fatal(err)
	}
	if _, err := closeSession(ctx, p, "", info.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Do(ctx, p, Request{Language: "shell", Name: "a.sh", Code: []byte("true"), Where: Where{Backend: "none"}}); err == nil {
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
	for _, kind := range []string{event.SessionCreated, event.SessionKilled, event.ExecutionStarted, event.ExecutionCompleted, executionRefused} {
		if !seen[kind] {
			t.Errorf("no row %s", kind)
		}
	}
}
