package podman

import (
	"slices"
	"strings"
	"testing"
)

func TestPrintProgress(t *testing.T) {
	in := `{"stream":"Trying to pull\u001b[31m x...\nGetting"}{"stream":" image\r50%\r"}{"stream":"100%\n\n"}{"error":"no such thing"}{"stream":"end"}`
	var lines []string
	err := printProgress(strings.NewReader(in), func(line string) { lines = append(lines, line) })
	if err == nil || err.Error() != "no such thing" {
		t.Errorf("got error %v", err)
	}
	if want := []string{"Trying to pull[31m x...", "Getting image", "50%", "100%", "end"}; !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	if err := printProgress(strings.NewReader(`{"stream":"a`), nil); err == nil {
		t.Error("an answer that is cut is no error")
	}
}

func FuzzPrintProgress(f *testing.F) {
	f.Add(`{"stream":"a\r\nb"}`)
	f.Fuzz(func(t *testing.T, in string) {
		printProgress(strings.NewReader(in), func(line string) {
			if strings.ContainsAny(line, "\n\r\x1b\x00") || line == "" {
				t.Errorf("a line for people: %q", line)
			}
		})
	})
}
