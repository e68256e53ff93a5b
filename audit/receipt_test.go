package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
)

func TestReceipt(t *testing.T) {
	l := openSigned(t, logPath(t), signing(0))
	receipt := []byte("{\"payload\": \"\x00\xff anything\"}\n")
	got, err := l.Append(t.Context(),
		Entry{Kind: "execution.started", Run: "r1"},
		Entry{Kind: "execution.completed", Run: "r1", Data: map[string]int{"exit_code": 0}, Receipt: receipt},
		Entry{Kind: "execution.completed", Run: "r2", Receipt: []byte("x")},
		Entry{Kind: "artifact.shown", Run: "r1"},
	)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := l.Receipt(t.Context(), "r1"); err != nil || !bytes.Equal(b, receipt) {
		t.Errorf("got %q, %v", b, err)
	}
	for _, r := range got[1:3] {
		var data map[string]any
		if err := json.Unmarshal(r.Data, &data); err != nil || data["receipt_sha256"] == nil {
			t.Errorf("row %d says %s, %v", r.Seq, r.Data, err)
		}
	}
	for _, run := range []string{"r3", "", "' OR 1=1"} {
		if _, err := l.Receipt(t.Context(), run); !errors.Is(err, ErrNoReceipt) {
			t.Errorf("run %q: got %v", run, err)
		}
	}
	if _, err := l.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantSound(t, l, 4)
	for name, test := range map[string]struct {
		entry Entry
		want  string
	}{
		"a hash of its own":        {Entry{Kind: "k", Data: map[string]string{"receipt_sha256": "00"}}, "is for the log"},
		"and a receipt":            {Entry{Kind: "k", Data: map[string]string{"receipt_sha256": "00"}, Receipt: receipt}, "is for the log"},
		"a hash spelled otherwise": {Entry{Kind: "k", Data: json.RawMessage(`{"a":1,"receipt\u005fsha256":"00"}`)}, "is for the log"},
		"too large":                {Entry{Kind: "k", Receipt: make([]byte, pack.MaxReceipt+1)}, "1048576 is the limit"},
	} {
		_, err := l.Append(t.Context(), test.entry)
		t.Run(name, func(t *testing.T) { wantError(t, err, test.want) })
	}
	if _, err := l.Append(t.Context(), Entry{Kind: "k",
		Data: map[string]any{"x": map[string]string{"receipt_sha256": strings.Repeat("0", 64)}}}); err != nil {
		t.Errorf("deeper in the data it means nothing: %v", err)
	}
	wantSound(t, l, 5)
	tamper(t, l.path, "DROP TRIGGER audit_no_update", "UPDATE audit SET data = "+repacked(string(collect(t, l, Filter{})[1].Data),
		[]byte("{}"))+" WHERE seq = 2")
	_, err = l.Receipt(t.Context(), "r1")
	wantError(t, err, "not the one that row 2 came with")
}

// TestTriggersRefuseMore: with the triggers in place, no statement changes the log's proofs.
func TestTriggersRefuseMore(t *testing.T) {
	path, _ := signedLog(t)
	l := openLog(t, path)
	for _, s := range []string{
		"UPDATE audit SET receipt = NULL",
		"UPDATE dictionary SET text = x''",
		"DELETE FROM dictionary",
		"REPLACE INTO dictionary VALUES (1, x'')",
		"INSERT OR REPLACE INTO dictionary VALUES (1, x'')",
		"UPDATE checkpoints SET note = ''",
		"DELETE FROM checkpoints",
		"REPLACE INTO checkpoints SELECT size, '' FROM checkpoints",
		"UPDATE tree SET hash = x''",
		"DELETE FROM tree",
		"REPLACE INTO tree SELECT level, position, x'' FROM tree",
	} {
		_, err := l.active.Load().db.Exec(s)
		t.Run(s, func(t *testing.T) { wantError(t, err, "append-only") })
	}
	wantSigned(t, path, 1022, 'a')
}
