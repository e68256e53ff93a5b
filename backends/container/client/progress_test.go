package client

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestPrintProgress(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []string
		err      string
	}{
		{"pull", `{"status":"Pulling from x"}{"status":"Pulling fs layer","id":"a"}
			{"status":"Downloading","id":"a","progressDetail":{"current":1000000,"total":3000000}}
			{"status":"Downloading","id":"a","progressDetail":{"current":2000000,"total":3000000}}
			{"status":"Download complete","id":"a"}{"status":"Download complete","id":"a"}`,
			[]string{"Pulling from x", "a: Pulling fs layer", "downloaded 1.0 of 3.0 MB", "a: Download complete"}, ""},
		{"build, in pieces", `{"stream":"Step 1"}{"stream":"/2\n ---\u003e "}{"stream":"\u001b[31mred\u001b[0m\r\nlast"}`,
			[]string{"Step 1/2", "---> [31mred[0m", "last"}, ""},
		{"error", `{"stream":"a\n"}{"errorDetail":{"message":"it broke"},"error":"it broke"}`, []string{"a"}, "it broke"},
		{"error before the end", `{"stream":"Trying to pull\u001b[31m x...\nGetting"}{"stream":" image\r50%\r"}{"stream":"100%\n\n"}{"error":"no such thing"}{"stream":"end"}`,
			[]string{"Trying to pull[31m x...", "Getting image", "50%", "100%", "end"}, "no such thing"},
		{"old error", `{"error":"it broke"}`, nil, "it broke"},
		{"cut", `{"stream":"a\n"}{"str`, []string{"a"}, "unexpected EOF"},
		{"terminal", `{"status":"\u001b]0;title\u0007x\u202ey\u0000"}`, []string{"]0;titlexy"}, ""},
	} {
		var got []string
		err := PrintProgress(strings.NewReader(c.in), func(s string) { got = append(got, s) })
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %q, %v, want %q, %s", c.name, got, err, c.want, c.err)
		}
	}
}

func FuzzPrintProgress(f *testing.F) {
	f.Add(`{"status":"Downloading","id":"a","progressDetail":{"current":1,"total":2}}`)
	f.Add(`{"stream":"a\nb"}{"error":"x"}`)
	f.Fuzz(func(t *testing.T, s string) {
		_ = PrintProgress(strings.NewReader(s), func(line string) {
			if line == "" || strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("got %q", line)
			}
		})
	})
}
