package rpc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzLines(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `[]`, `{"id":{}}`, "\xff",
		`{"jsonrpc":"2.0","method":"x","id":1e999}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, _ := readLine(bufio.NewReader(bytes.NewReader(text)))
		if len(l.text) == 0 {
			return
		}
		m, bad := parseLine(l)
		if bad != nil && !json.Valid(bad.encode()) {
			t.Errorf("%q: the fault is not JSON: %s", text, bad.encode())
		}
		if bad == nil && m.Method != nil && !json.Valid(m.encodeResult(nil)) {
			t.Errorf("%q: the response is not JSON: %s", text, m.encodeResult(nil))
		}
	})
}

// TestEnvelope: a sender can't set the fields that this package derives from a message.
func TestEnvelope(t *testing.T) {
	text := `{"jsonrpc":"2.0","id":1,"method":"tools/call","Plain":true,"plain":true,"Modern":true,"Called":{"name":"execute_code"},"envelope":{"id":2}}`
	m, bad := parseLine(inputLine{text: []byte(text)})
	if bad != nil || m.Plain || m.Modern || m.Called.Name != "" || string(m.ID) != "1" {
		t.Errorf("got %+v, %v", m, bad)
	}
}
