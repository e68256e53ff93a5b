package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"execution.started", "egress.denied", "from-file", "ram", "x", "Report.csv", strings.Repeat("long", 20)}
	for word, want := range map[string]string{
		"": "", "y": "", "X": "x", "rm": "", "rma": "ram", "form_file": "from-file", "FROM_FILE": "from-file", "reprot.csv": "Report.csv",
		"egress.dennied": "egress.denied", "execution": "execution.started", "my-ram-mb": "ram", "zzzzzz": "", strings.Repeat("long", 21): "",
		"\xff\xfe\xfd": "",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := DidYouMean("rma", names); got != ` (did you mean "ram"?)` {
		t.Errorf("got %q", got)
	}
	if got := DidYouMean("rma", nil); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "acb", 1}, {"abc", "axc", 1}, {"ca", "abc", 3}, {"kitten", "sitting", 3}} {
		if got := Distance(tt.a, tt.b); got != tt.want || Distance(tt.b, tt.a) != tt.want {
			t.Errorf("%q, %q: got %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
