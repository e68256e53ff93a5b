package rpc

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestIdleSessions has sessions end that nobody uses, and what their requests outside of them have in common.
func TestIdleSessions(t *testing.T) {
	h := NewHTTP("", func(string, string) *Server { return New(Config{}) })
	defer h.Close()
	for range 3 {
		s, no := h.open(httptest.NewRequest(http.MethodPost, "/mcp", nil), caller{"ci", "one"}, nil)
		if no != nil {
			t.Fatal(no.text)
		}
		h.leave(s)
	}
	h.dropIdle(time.Now().Add(sessionIdle - time.Minute))
	if len(h.sessions) != 3 {
		t.Errorf("%d sessions after less than an hour", len(h.sessions))
	}
	h.dropIdle(time.Now().Add(sessionIdle + time.Minute))
	if len(h.sessions)+len(h.callers) != 0 {
		t.Errorf("%d sessions after an hour", len(h.sessions))
	}
}
