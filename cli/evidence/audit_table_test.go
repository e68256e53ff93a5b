package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/cli/auditrows"
	"github.com/sandboxmcp/sandboxmcp/cli/terminal"
)

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		text    string
		columns int
		want    string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"ab cd", 4, "ab…"}, {"", 3, ""},
		{"漢字漢", 6, "漢字漢"}, {"漢字漢", 5, "漢字…"}, {"漢字漢", 4, "漢…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"a😀😀", 4, "a😀…"},
	} {
		if got := terminal.Cut(tt.text, tt.columns); got != tt.want {
			t.Errorf("%q in %d: got %q, want %q", tt.text, tt.columns, got, tt.want)
		}
	}
}

// TestTableFits prints rows with long and hostile text to terminals of several widths.
func TestTableFits(t *testing.T) {
	data, _ := json.Marshal(map[string]string{"name": "a\x1b[2J\u202e" + strings.Repeat("long ", 100), "reason": strings.Repeat("漢", 100)})
	r := audit.Row{Seq: 1234567, Time: time.Now(), Kind: "execution.refused", Run: strings.Repeat("R", 26), Namespace: "a-long-namespace",
		Data: data}
	for _, width := range []int{0, 20, 80, 129, 130, 200} {
		var b bytes.Buffer
		out := auditrows.NewAuditTable(&b, width)
		if err := out.Row(r); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			wide := terminal.DisplayWidth(strings.TrimSuffix(line, "\n"))
			if width > 0 && wide > width {
				t.Errorf("%d columns on a terminal of %d: %s", wide, width, line)
			}
			if strings.ContainsAny(line, "\x1b\u202e") || !utf8.ValidString(line) {
				t.Errorf("not harmless: %q", line)
			}
		}
		whole := strings.Contains(b.String(), strings.Repeat("漢", 100))
		if run := strings.Contains(b.String(), r.Run); whole != (width == 0) || run != (width == 0 || width >= terminal.LiveWidth) {
			t.Errorf("width %d: whole %v, run %v", width, whole, run)
		}
	}
}

// TestDamagedRow prints a row whose data was damaged and is not JSON.
func TestDamagedRow(t *testing.T) {
	var b bytes.Buffer
	out := &auditrows.JSON{W: &b}
	row := audit.Row{Seq: 1, Kind: "execution.started", Data: json.RawMessage("{\x1b")}
	if err := errors.Join(out.Row(row), out.Close()); err != nil {
		t.Fatal(err)
	}
	var rows []audit.Row
	if err := json.Unmarshal(b.Bytes(), &rows); err != nil || len(rows) != 1 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("got %q: %v", b.String(), err)
	}
}
