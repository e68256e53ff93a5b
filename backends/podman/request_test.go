package podman

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestRefused reads what a service says when it says no, and passes nothing on that a terminal would obey.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name, body, want string
		plain            bool
	}{
		{"an answer", `{"message":"it \u001b[31mbroke\u202e\n"}`, "it [31mbroke", false},
		{"a page", " 404 page\x07 not found\n", "404 page not found", true},
		{"nothing", "", "404 Not Found", true},
		{"only what is not shown", `{"message":"\u0007"}`, "404 Not Found", false},
		{"much", `{"message":"` + strings.Repeat("ä", 600) + `the cause"}`, "the cause", false},
	} {
		err := refused(&http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: io.NopCloser(strings.NewReader(test.body))})
		f := (*failure)(nil)
		errors.As(err, &f)
		if f == nil || f.message != test.want && test.name != "much" || f.notAPI != test.plain || f.status != http.StatusNotFound {
			t.Errorf("%s: got %+v, want %q", test.name, f, test.want)
		}
		if !strings.HasSuffix(f.message, test.want) || len(f.message) > 700 || strings.Contains(f.message, "\ufffd") {
			t.Errorf("%s: got %q", test.name, f.message)
		}
	}
}
