package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/signer"
)

// TestReceipt: who has run something gets its receipt, whole or in parts, and nobody gets one of another namespace.
func TestReceipt(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	run := p.tool("execute_code", `{"code":"print(6 * 7)","namespace":"mine"}`)
	id, sum := run.facts["request_id"].(string), run.facts["receipt_sha256"].(string)
	var text strings.Builder
	for offset := 0; ; {
		part := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"namespace":"mine","name":"receipt.intoto.json","offset":%d,"max_bytes":700}`, id, offset))
		text.WriteString(part.facts["part"].(string))
		next, more := part.facts["next_offset"].(float64)
		if !more {
			break
		}
		offset = int(next)
	}
	got := sha256.Sum256([]byte(text.String()))
	if hex.EncodeToString(got[:]) != sum {
		t.Errorf("the receipt %s has another hash than %s", &text, sum)
	}
	e, err := signer.ParseEnvelope([]byte(text.String()))
	if err != nil || !strings.Contains(string(e.Payload), id) {
		t.Errorf("%v in %s", err, &text)
	}
	if other := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"namespace":"other","name":"receipt.intoto.json"}`, id)); !other.IsError {
		t.Errorf("another namespace got %s", other.text)
	}
}
