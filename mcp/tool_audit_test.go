package mcp

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// Sealed rows are rows like the others; of a segment that was moved away the answer says so.
func TestAuditSealed(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "audit.db")
	log, err := audit.OpenSigned(t.Context(), path, audit.Signing{Key: func(context.Context) (crypto.Signer, error) { return key, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	for i := range 20 {
		if _, err := log.Append(t.Context(), audit.Entry{Kind: "execution.started", Run: fmt.Sprint("RUN", i%2), Namespace: "default"}); err != nil {
			t.Fatal(err)
		}
	}
	segments, err := log.Seal(t.Context(), time.Now().Add(time.Hour))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	p := newRig(t, func(c *Config) { c.Log = log }).hello("2025-11-25", `{}`)
	contains(t, p.tool("audit_execution", `{"request_id":"RUN0"}`).text, "10 rows\n")
	contains(t, p.tool("audit_execution", `{"after":3,"limit":5}`).text, "5 rows\n", `"after": 8`)
	if err := os.Remove(segments[0].File); err != nil {
		t.Fatal(err)
	}
	r := p.tool("audit_execution", `{"request_id":"RUN1"}`)
	contains(t, r.text, "1 row\n", "rows 1 to 19 are in a sealed segment that is not here")
	if r.IsError || strings.Contains(r.text, path) {
		t.Errorf("isError %v: %s", r.IsError, r.text)
	}
}
