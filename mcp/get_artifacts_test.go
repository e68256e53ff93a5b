package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// TestReceipt: a caller gets the receipts of its namespace, whole or in parts, and no others.
func TestReceipt(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	run := p.tool("execute_code", `{"code":"print(6 * 7)\nopen('left.txt', 'w').write('x')","namespace":"mine"}`)
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
	words := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"namespace":"mine","name":"receipt.intoto.json"}`, id)).text
	contains(t, words, "receipt of run "+id+" in namespace mine\nran: python, script.py, SHA-256 ", "\nended: exit code 0, after ",
		"\ncontained by: user mount ",
		"\nstdout: 3 bytes, SHA-256 ", "\nartifact: left.txt, SHA-256 ", "\nsigned by key: "+e.Signatures[0].KeyID, `"encoding": "raw"`)
	if raw := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"namespace":"mine","name":"receipt.intoto.json","encoding":"raw"}`, id)); !strings.Contains(raw.text, text.String()) {
		t.Errorf("got %s", raw.text)
	}
	if other := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"namespace":"other","name":"receipt.intoto.json"}`, id)); !other.IsError {
		t.Errorf("another namespace got %s", other.text)
	}
}

// TestNoReceipt: without a receipt, the answer has the reason.
func TestNoReceipt(t *testing.T) {
	p := newRig(t, nil).hello("2025-11-25", `{}`)
	get := func(id any) string {
		got := p.tool("get_artifacts", fmt.Sprintf(`{"request_id":%q,"name":"receipt.intoto.json"}`, id))
		if !got.IsError {
			t.Errorf("there is one: %s", got.text)
		}
		return got.text
	}
	refused := p.tool("execute_code", `{"code":"1","secrets":["NOT_THERE"]}`)
	if id, _ := refused.facts["request_id"].(string); id != "" {
		contains(t, get(id), "was refused")
	} else {
		t.Errorf("no id in %v", refused.facts)
	}
	session := p.tool("create_session", `{"language":"shell"}`)
	contains(t, get(session.facts["session_id"]), "session")
	background := p.tool("execute_code", `{"code":"sleep 1000","language":"shell","background":true}`)
	hosttest.Until(t, "it says that the run has not ended yet", func() bool {
		return strings.Contains(get(background.facts["request_id"]), "still running")
	})
	contains(t, get("01K00000000000000000000000"), "unknown run")
}
