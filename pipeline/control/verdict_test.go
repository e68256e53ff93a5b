package control

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// FuzzVerdict wants that only an explicit yes is a yes.
func FuzzVerdict(f *testing.F) {
	for _, s := range []string{`{"allow":true}`, `{"allow":false,"reason":"x"}`, `{}`, `null`, `{"allow":"true"}`, `{"allow":true}x`, "[[[",
		""} {
		f.Add(s)
	}
	read := func(body string) (Verdict, error) {
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{}, Body: io.NopCloser(strings.NewReader(body))}
		r.SetPathValue("id", "x")
		v, err := AnswerApproval.Arguments(r)
		if err != nil {
			return Verdict{}, err
		}
		return *v, nil
	}
	f.Fuzz(func(t *testing.T, body string) {
		v, err := read(body)
		if err != nil && v.Allow {
			t.Errorf("%q: an error and a yes", body)
		}
		if err != nil {
			return
		}
		if !json.Valid([]byte(body)) || v.Allow && !strings.Contains(body, "true") {
			t.Errorf("%q was taken for %+v", body, v)
		}
		again, _ := json.Marshal(v)
		if w, err := read(string(again)); err != nil || w != v {
			t.Errorf("%s: %+v, %v", again, w, err)
		}
	})
}

// TestDenyForNow: a client that may try again learns when.
func TestDenyForNow(t *testing.T) {
	for _, err := range []error{failure(http.StatusTooManyRequests, "too many"), failure(http.StatusServiceUnavailable, "too many"),
		door.Busy(http.StatusTooManyRequests, "too much")} {
		w := httptest.NewRecorder()
		if deny(w, err); w.Code < 429 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%v: got %d %v", err, w.Code, w.Header())
		}
	}
}
