package podman

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/sandboxmcp/sandboxmcp/backends/container/client"
)

// TestRefused decodes error responses, and checks that control characters for terminals are removed.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name, body, want string
	}{
		{"an answer", `{"message":"it \u001b[31mbroke\u202e\n"}`, "it [31mbroke"},
		{"a page", " 404 page\x07 not found\n", "404 page not found"},
		{"nothing", "", "404 Not Found"},
		{"only what is not shown", `{"message":"\u0007"}`, "404 Not Found"},
		{"much", `{"message":"` + strings.Repeat("ä", 600) + `the cause"}`, "the cause"},
	} {
		err := readError(&http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found",
			Body: io.NopCloser(strings.NewReader(test.body))})
		f := (*failure)(nil)
		errors.As(err, &f)
		if f == nil || f.message != test.want && test.name != "much" || !errdefs.IsNotFound(err) {
			t.Errorf("%s: got %+v, want %q", test.name, f, test.want)
		}
		if !strings.HasSuffix(f.message, test.want) || len(f.message) > 700 || strings.Contains(f.message, "\ufffd") {
			t.Errorf("%s: got %q", test.name, f.message)
		}
	}
}

// TestBroken: Podman answers 500 to many permanent errors, which are not retried.
func TestBroken(t *testing.T) {
	for status, want := range map[int]bool{http.StatusInternalServerError: false, http.StatusServiceUnavailable: true,
		http.StatusNotFound: false} {
		err := readError(&http.Response{StatusCode: status, Body: http.NoBody})
		if got := client.IsTemporary(err); got != want {
			t.Errorf("%d: is temporary: %t", status, got)
		}
	}
}
