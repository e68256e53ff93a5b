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

// HTTP answers clients that identity has told apart: /mcp is streamable HTTP of all versions of the protocol, and /sse
// with /message the transport of 2024-11-05. Each may have /NAMESPACE behind it. /v1/tools/NAME is one operation
// without the protocol. An identity has a server of its own for each of its namespaces.
type HTTP struct {
	namespace string // the only one that callers may use; "" lets each use its own
	serverFor func(namespace, user string) *Server
	keys      atomic.Int64   // of requests outside of sessions
	calls     sync.WaitGroup // of all sessions
	end       chan struct{}  // closed when no more requests are taken
	idle      time.Duration  // sessionIdle

	mu       sync.Mutex
	draining bool
	callers  map[caller]*httpSession // what their requests outside of sessions have in common
	sessions map[string]*httpSession // by their ids
}

// caller is an identity in one of its namespaces; "" is all of them.
type caller struct{ owner, namespace string }

// NewHTTP returns a handler. What it serves must have an identity in its context.
func NewHTTP(namespace string, serverFor func(namespace, user string) *Server) *HTTP {
	h := &HTTP{namespace: namespace, serverFor: serverFor, end: make(chan struct{}), idle: sessionIdle, callers: map[caller]*httpSession{}, sessions: map[string]*httpSession{}}
	go h.sweep()
	return h
}

// ServeHTTP answers one request.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if tool, ok := strings.CutPrefix(r.URL.Path, ToolsPath); ok {
		if no := h.operate(w, r, tool); no != nil {
			no.later(w)
			door.Reply(w, no.status, PlainFault{Error: no.text})
		}
		return
	}
	if no := h.serve(w, r); no != nil {
		no.later(w)
		writeMessage(w, no.status, no.encode())
	}
}

// serve finds the handler of a path. http.ServeMux would answer /mcp//NAMESPACE by a redirect, and what it does not
// know by text.
func (h *HTTP) serve(w http.ResponseWriter, r *http.Request) *refused {
	parts := strings.Split(r.URL.EscapedPath(), "/") // "", the handler's, and a namespace
	if len(parts) == 3 && parts[2] != "" {
		namespace, _ := url.PathUnescape(parts[2]) // which is well-formed
		r.SetPathValue("namespace", namespace)
		parts = parts[:2]
	}
	var next func(http.ResponseWriter, *http.Request, caller) *refused
	switch strings.Join(parts, "/") {
	case "/mcp":
		next = h.streamable
	case "/sse":
		next = h.openSSE
	case "/message":
		next = h.postSSE
	default:
		return refuse(http.StatusNotFound, "there is nothing at this path: use /mcp or /mcp/NAMESPACE")
	}
	of, no := h.caller(r)
	if no != nil {
		return no
	}
	return next(w, r, of)
}

// Drain takes no more requests, and ends streams of /sse when all is answered that was sent to them.
func (h *HTTP) Drain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return
	}
	h.draining = true
	close(h.end)
	for _, s := range h.sessions {
		h.endAnswered(s)
	}
}

// Close ends all sessions and cancels what they do. It returns when that has ended.
func (h *HTTP) Close() {
	h.Drain()
	h.dropAll(func(*httpSession) bool { return true })
	h.calls.Wait()
}

// streamable answers a request to /mcp.
func (h *HTTP) streamable(w http.ResponseWriter, r *http.Request, of caller) *refused {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Method {
	case http.MethodPost:
		return h.post(w, r, of)
	case http.MethodDelete:
		s, no := h.session(r.Header.Get(headerSession), of)
		if no != nil {
			return no
		}
		h.drop(s)
		h.leave(s)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	// No message of ours is sent by itself.
	w.Header().Set("Allow", "POST, DELETE")
	return refuse(http.StatusMethodNotAllowed, "send POST: this server has no stream for GET")
}

// post answers the message in a request to /mcp.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, of caller) *refused {
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		return refuse(http.StatusNotAcceptable, "the header Accept must name application/json and text/event-stream")
	}
	m, no := read(r)
	if no != nil {
		return no
	}
	s, no := h.sessionFor(r, m, of)
	if no != nil {
		return no
	}
	defer h.leave(s)
	no = h.answer(w, r, s, m)
	if r.Header.Get(headerSession) == "" && s.id != "" && (no != nil || m.failed != 0) { // it was not begun
		h.drop(s)
	}
	return no
}

// answer answers a message of a session, or of none.
func (h *HTTP) answer(w http.ResponseWriter, r *http.Request, s *httpSession, m *Message) *refused {
	if s.id == "" && m.Method == nil {
		return refuse(http.StatusBadRequest, "an answer belongs to a session: "+headerSession+" is missing")
	}
	if s.conn.heard(m) {
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if m.key = string(m.ID); s.id == "" {
		m.key = h.newKey()
	}
	var bad *Fault
	err := door.Decode(r.Context(), m.size, 0, func() error {
		if bad = s.conn.admit(m); bad == nil {
			bad = mirrored(r, m)
		}
		return nil
	})
	switch {
	case err != nil:
		return unread(err)
	case bad != nil:
		return &refused{status: http.StatusBadRequest, Fault: *bad}
	}
	return h.respond(w, r, s, m)
}

// accepts reports whether the client takes a type of content.
func accepts(r *http.Request, kind string) bool {
	return names(r, kind, "*/*", kind[:strings.Index(kind, "/")]+"/*")
}
