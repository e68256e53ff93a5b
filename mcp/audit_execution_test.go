package mcp

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit"
)

// TestAuditRotated: audit_execution finds the rows of rotated files.
func TestAuditRotated(t *testing.T) {
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
	if _, err := log.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := newRig(t, func(c *Config) { c.Log = log }).hello("2025-11-25", `{}`)
	contains(t, p.tool("audit_execution", `{"request_id":"RUN0"}`).text, "10 rows\n")
	contains(t, p.tool("audit_execution", `{"after":3,"limit":5}`).text, "5 rows\n", `"after": 8`)
}
