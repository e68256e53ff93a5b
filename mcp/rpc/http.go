package rpc

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// HTTP serves identified clients: streamable HTTP of all protocol versions at /mcp, the 2024-11-05 transport at /sse
// and /message, each optionally followed by /NAMESPACE, and single operations without the protocol at /v1/tools/NAME.
// Each identity has one server per namespace.
type HTTP struct {
	namespace string // the only namespace that callers may use; "" lets each use its own
	serverFor func(namespace, user string) *Server
	keys      atomic.Int64   // counts requests outside of sessions
	calls     sync.WaitGroup // of all sessions
	drained   chan struct{}  // closed by Drain
	idle      time.Duration  // sessionIdle, or a test's

	mu       sync.Mutex
	draining bool
	callers  map[caller]*httpSession // sessions that a caller's requests without a session id share
	sessions map[string]*httpSession // by session id
}

// caller is an identity in a namespace; "" is all of its namespaces.
type caller struct{ owner, namespace string }

// NewHTTP returns a handler. The context of each request must have an identity.
func NewHTTP(namespace string, serverFor func(namespace, user string) *Server) *HTTP {
	h := &HTTP{namespace: namespace, serverFor: serverFor, drained: make(chan struct{}), idle: sessionIdle, callers: map[caller]*httpSession{},
		sessions: map[string]*httpSession{}}
	go h.dropIdleSessions()
	return h
}

// ServeHTTP serves one request.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if tool, ok := strings.CutPrefix(r.URL.Path, ToolsPath); ok {
		if no := h.callOperation(w, r, tool); no != nil {
			no.setRetryAfter(w)
			door.Reply(w, no.status, PlainFault{Error: no.text})
		}
		return
	}
	if no := h.route(w, r); no != nil {
		no.setRetryAfter(w)
		writeMessage(w, no.status, no.encode())
	}
}

// route calls the handler of a path. http.ServeMux would redirect /mcp//NAMESPACE, and answer unknown paths with
// plain text.
func (h *HTTP) route(w http.ResponseWriter, r *http.Request) *refusal {
	parts := strings.Split(r.URL.EscapedPath(), "/") // "", the first element and a namespace
	if len(parts) == 3 && parts[2] != "" {
		namespace, _ := url.PathUnescape(parts[2]) // r.URL is already validated
		r.SetPathValue("namespace", namespace)
		parts = parts[:2]
	}
	var next func(http.ResponseWriter, *http.Request, caller) *refusal
	switch strings.Join(parts, "/") {
	case "/mcp":
		next = h.serveStreamable
	case "/sse":
		next = h.openSSE
	case "/message":
		next = h.postSSE
	default:
		return refuse(http.StatusNotFound, "unknown path: use /mcp or /mcp/NAMESPACE")
	}
	from, no := h.identifyCaller(r)
	if no != nil {
		return no
	}
	return next(w, r, from)
}

// Drain refuses new requests, and ends each /sse stream once all of its requests are answered.
func (h *HTTP) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return
	}
	h.draining = true
	close(h.drained)
	for _, s := range h.sessions {
		h.endDrainedStream(s)
	}
}

// Close ends all sessions, cancels their calls and waits for them.
func (h *HTTP) Close() {
	h.Drain()
	h.dropWhere(func(*httpSession) bool { return true })
	h.calls.Wait()
}

// serveStreamable serves a request to /mcp.
func (h *HTTP) serveStreamable(w http.ResponseWriter, r *http.Request, from caller) *refusal {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Method {
	case http.MethodPost:
		return h.servePost(w, r, from)
	case http.MethodDelete:
		s, no := h.acquireSession(r.Header.Get(headerSession), from)
		if no != nil {
			return no
		}
		h.drop(s)
		h.releaseSession(s)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	// This server sends no messages outside of responses.
	w.Header().Set("Allow", "POST, DELETE")
	return refuse(http.StatusMethodNotAllowed, "send POST: this server has no stream for GET")
}

// servePost answers the message in a request to /mcp.
func (h *HTTP) servePost(w http.ResponseWriter, r *http.Request, from caller) *refusal {
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		return refuse(http.StatusNotAcceptable, "the header Accept must name application/json and text/event-stream")
	}
	m, no := readMessage(r)
	if no != nil {
		return no
	}
	s, no := h.acquireFor(r, m, from)
	if no != nil {
		return no
	}
	defer h.releaseSession(s)
	no = h.answerMessage(w, r, s, m)
	if r.Header.Get(headerSession) == "" && s.id != "" && (no != nil || m.faultCode != 0) { // initialize failed
		h.drop(s)
	}
	return no
}

// answerMessage answers a message, in a session or outside of sessions.
func (h *HTTP) answerMessage(w http.ResponseWriter, r *http.Request, s *httpSession, m *Message) *refusal {
	if s.id == "" && m.Method == nil {
		return refuse(http.StatusBadRequest, "a response needs a session: "+headerSession+" is missing")
	}
	if s.conn.handleOneWay(m) {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if m.key = string(m.ID); s.id == "" {
		m.key = h.newKey()
	}
	var bad *Fault
	err := door.Decode(r.Context(), m.size, 0, func() error {
		if bad = s.conn.admit(m); bad == nil {
			bad = checkMirroredHeaders(r, m)
		}
		return nil
	})
	switch {
	case err != nil:
		return refuseBody(err)
	case bad != nil:
		return &refusal{status: http.StatusBadRequest, Fault: *bad}
	}
	return h.respond(w, r, s, m)
}

// accepts reports whether the client accepts a content type.
func accepts(r *http.Request, kind string) bool {
	return namesType(r, kind, "*/*", kind[:strings.Index(kind, "/")]+"/*")
}
