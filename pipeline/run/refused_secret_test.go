package run_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/kernel"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/pipelinetest"
	"github.com/sandboxmcp/sandboxmcp/pipeline/run"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// TestRefusalIsRedactedWhereAnotherSecretIsMissing: a refusal quotes the wrong value, and one of the secrets that this
// may contain can't be looked up.
func TestRefusalIsRedactedWhereAnotherSecretIsMissing(t *testing.T) {
	r := pipelinetest.NewRig(t, nil)
	value := "Zq7v-" + strings.Repeat("Xw", 12)
	r.Memory.Set("default", "KEY", []byte(value))
	res, err := r.Shell("true", func(q *run.Request) { q.Secrets, q.Profile = []string{"NONE", "KEY"}, value })
	reported, _ := json.Marshal(res)
	_, rows := r.Rows()
	if text := fmt.Sprintf("%s %+v %v %s", reported, res, err, rows); strings.Contains(text, value[:12]) ||
		!strings.Contains(text, vault.Mark) {
		t.Errorf("got %s", text)
	}
}

// TestTypeIsCut has the name of an error's type, which drivers cut, end in the middle of a secret.
func TestTypeIsCut(t *testing.T) {
	memory := vault.NewMemory()
	secret := "Zq7v" + strings.Repeat("Xw3", 40)
	memory.Set("default", "KEY", []byte(secret))
	lease, err := vault.New(memory).Lease(t.Context(), "default", []string{"KEY"})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Close()
	r := &pipeline.Run{Redactor: pipeline.Redactor{Leases: vault.Leases{lease}, Tokens: &pipeline.TokenFinder{}}}
	r.Outcome.Error = &kernel.Error{Type: (strings.Repeat("e", 150) + secret)[:200]}
	if r.Scrub(); strings.Contains(r.Outcome.Error.Type, "Zq7v") || !strings.HasPrefix(r.Outcome.Error.Type, "eee") {
		t.Errorf("got %q", r.Outcome.Error.Type)
	}
}
