package remedy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestString(t *testing.T) {
	for _, tt := range []struct {
		text Text
		want string
	}{
		{nil, ""},
		{Text{""}, ""},
		{Text{"100 %s of ", 3, " MB: ", RAM}, "100 %s of 3 MB: --ram"},
		{Text{"give it more with ", Timeout.With("SECONDS"), ", or try again"}, "give it more with --timeout SECONDS, or try again"},
		{Text{"or ", Raise.With("caps.%d")}, "or raise caps.%d in the configuration"},
		{Text{Install, " ", Packages.With("numpy>=2 rich"), " ", ForProgram.With("python"), ForSession.With("ID")},
			"sandboxmcp install 'numpy>=2' rich --language python"},
		{Text{"not installed", InstallMissing}, "not installed"},
	} {
		if got := tt.text.String(); got != tt.want || tt.text.IsZero() != (tt.want == "") {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestJSON: a text is a string, as it was before it had parts, and is left out where it says nothing.
func TestJSON(t *testing.T) {
	type message struct {
		Hints  []Text `json:"hints,omitempty"`
		Remedy Text   `json:"remedy,omitzero"`
	}
	b, err := json.Marshal([]message{{[]Text{{"use ", Disk.With("MB")}}, Text{"do ", Allow}}, {Remedy: Text{""}}})
	if want := `[{"hints":["use --disk MB"],"remedy":"do --allow"},{}]`; err != nil || string(b) != want {
		t.Fatalf("got %s, %v; want %s", b, err, want)
	}
	var back []message
	if err := json.Unmarshal(b, &back); err != nil || back[0].Hints[0].String() != "use --disk MB" || !back[1].Remedy.IsZero() {
		t.Errorf("got %v, %v", back, err)
	}
}

// TestSplit: a remedy stands behind its error, and is taken from there only.
func TestSplit(t *testing.T) {
	own := For(io.EOF, "give ", Allow.With("a.example"))
	if !errors.Is(own, io.EOF) || own.Error() != "EOF: give --allow a.example" {
		t.Errorf("got %v", own)
	}
	for _, tt := range []struct {
		err        error
		reason, do string
	}{
		{io.EOF, "EOF", ""},
		{own, "EOF", "give --allow a.example"},
		{fmt.Errorf("read: %w", own), "read: EOF", "give --allow a.example"},
		{fmt.Errorf("%w, and more", own), "EOF: give --allow a.example, and more", ""},
	} {
		if reason, do := Split(tt.err); reason != tt.reason || do.String() != tt.do {
			t.Errorf("got %q and %q, want %q and %q", reason, do, tt.reason, tt.do)
		}
	}
}

func TestClean(t *testing.T) {
	text := Text{"hunter2 is in ", 7, Allow.With("hunter2.example"), Input}
	clean := text.Clean(func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") })
	if got := clean.String(); got != "*** is in 7--allow ***.example--input" {
		t.Errorf("got %q", got)
	}
	if !strings.Contains(text.String(), "hunter2") {
		t.Error("the text itself was changed")
	}
}
