package rpc

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestIdleSessions: idle sessions and idle shared sessions are dropped.
func TestIdleSessions(t *testing.T) {
	h := NewHTTP("", func(string, string) *Server { return New(Config{}) })
	defer h.Close()
	for range 3 {
		s, no := h.openSession(httptest.NewRequest(http.MethodPost, "/mcp", nil), caller{"ci", "one"}, nil)
		if no != nil {
			t.Fatal(no.text)
		}
		h.releaseSession(s)
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
