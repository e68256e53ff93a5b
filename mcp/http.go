package mcp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// The library's handlers of HTTP are of its server, which package dispatch.go does without.

const (
	// maxSessions are sessions of the protocols before 2026-07-28 at once, and maxOwnSessions those of one identity.
	maxSessions, maxOwnSessions = 1024, 256
	// maxOther are the bytes of a message that calls no tool, and of a call beside its arguments.
	maxOther = 64 << 10
	// sessionIdle is how long a session is known that nobody uses.
	sessionIdle = time.Hour

	headerSession = "Mcp-Session-Id"
)

// HTTP answers clients that identity has told apart: /mcp is streamable HTTP of all versions of the protocol, and /sse with /message the
// transport of 2024-11-05. Each may have /NAMESPACE behind it. /v1/tools/NAME is one operation without the protocol.
// An identity has a server of its own for each of its namespaces.
type HTTP struct {
	cfg   Config
	keys  atomic.Int64   // of requests outside of sessions
	calls sync.WaitGroup // of all sessions
	end   chan struct{}  // closed when no more requests are taken
	idle  time.Duration  // sessionIdle

	mu       sync.Mutex
	draining bool
	callers  map[caller]*httpSession // what their requests outside of sessions have in common
	sessions map[string]*httpSession // by their ids
}

// caller is an identity in one of its namespaces; "" is all of them.
type caller struct{ owner, namespace string }

// NewHTTP returns a handler that works as cfg says. What it serves must have an identity in its context.
func NewHTTP(cfg Config) *HTTP {
	h := &HTTP{cfg: cfg, end: make(chan struct{}), idle: sessionIdle, callers: map[caller]*httpSession{}, sessions: map[string]*httpSession{}}
	go h.sweep()
	return h
}

// ServeHTTP answers one request.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if tool, ok := strings.CutPrefix(r.URL.Path, toolsPath); ok {
		if no := h.operate(w, r, tool); no != nil {
			no.later(w)
			door.Reply(w, no.status, plainFault{Error: no.text})
		}
		return
	}
	if no := h.serve(w, r); no != nil {
		no.later(w)
		writeMessage(w, no.status, no.encode())
	}
}

// serve finds the handler of a path. http.ServeMux would answer /mcp//NAMESPACE by a redirect, and what it does not know by text.
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

// caller returns who calls, in which namespace, or why nobody does.
func (h *HTTP) caller(r *http.Request) (caller, *refused) {
	i, known := identity.From(r.Context())
	if !known {
		return caller{}, refuse(http.StatusUnauthorized, "nobody is identified")
	}
	query := r.URL.Query()
	if query.Has("namespace") && query.Get("namespace") == "" {
		return caller{}, refuse(http.StatusBadRequest, "the namespace in the query is empty: name one, or leave it out")
	}
	namespace := cmp.Or(r.PathValue("namespace"), query.Get("namespace"), h.cfg.Namespace)
	if own := i.Namespaces.Names(); namespace == "" && len(own) > 0 {
		namespace = own[0]
	}
	if namespace == "" && (i.Kind != identity.Person || !i.Namespaces.All()) || namespace != "" && !i.May(namespace) || h.cfg.Namespace != "" && namespace != h.cfg.Namespace {
		return caller{}, refuse(http.StatusForbidden, "these credentials do not reach this namespace")
	}
	return caller{i.Owner(), namespace}, nil
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
func (h *HTTP) answer(w http.ResponseWriter, r *http.Request, s *httpSession, m *message) *refused {
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
	var bad *fault
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
		return &refused{status: http.StatusBadRequest, fault: *bad}
	}
	return h.respond(w, r, s, m)
}

// newKey returns a key of a request outside of sessions: ids are one client's, and many may have the same credentials.
func (h *HTTP) newKey() string { return "\x00" + strconv.FormatInt(h.keys.Add(1), 10) }

// respond has a request answered that is admitted. A client that goes away cancels what it waits for since the protocol 2026-07-28; before that,
// what was begun goes on. Credentials that end cancel it in any case.
func (h *HTTP) respond(w http.ResponseWriter, r *http.Request, s *httpSession, m *message) *refused {
	i, _ := identity.From(r.Context())
	a := newResponse(w, r, m)
	m.release = door.VisitOf(r.Context()).Keep()
	var bad *fault
	err := door.Decode(r.Context(), m.size, 0, func() error {
		bad = s.conn.request(identity.With(s.ctx, i), m, a.to, func(b []byte) { a.replied <- b })
		return nil
	})
	if err != nil || bad != nil {
		m.release()
	}
	switch {
	case err != nil:
		return unread(err)
	case bad != nil:
		return &refused{status: statusOf(bad.code), fault: *bad}
	}
	defer s.conn.cancelWith(r.Context(), m)()
	a.write(r.Context(), m, s)
	return nil
}

// cancelWith cancels what a request began when its client goes away, or its credentials end, until stop.
func (c *conn) cancelWith(ctx context.Context, m *message) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); m.modern || !errors.Is(cause, context.Canceled) {
			c.cancel(m.key, cause)
		}
	})
}

// accepts reports whether the client takes a type of content.
func accepts(r *http.Request, kind string) bool {
	return names(r, kind, "*/*", kind[:strings.Index(kind, "/")]+"/*")
}

// names reports whether the client says that it takes one of these types of content.
func names(r *http.Request, kinds ...string) bool {
	for _, value := range r.Header.Values("Accept") {
		for accepted := range strings.SplitSeq(value, ",") {
			t, params, err := mime.ParseMediaType(accepted)
			if q, no := strconv.ParseFloat(params["q"], 64); err == nil && (no != nil || q > 0) && slices.Contains(kinds, t) {
				return true
			}
		}
	}
	return false
}

// read reads the message of a request.
func read(r *http.Request) (m *message, no *refused) {
	body, no := readBody(r)
	if no != nil {
		return nil, no
	}
	var bad *fault
	err := door.Decode(r.Context(), len(body), 0, func() error {
		m, bad = parse(line{text: bytes.TrimSpace(body)})
		return nil
	})
	switch {
	case err != nil:
		return nil, unread(err)
	case bad != nil:
		return nil, &refused{status: http.StatusBadRequest, fault: *bad}
	case m.size > maxOther && m.method != string(mcp.MethodToolsCall):
		return nil, refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("%d bytes are the most of a message that calls no tool", maxOther))
	}
	return m, nil
}

// readBody reads the body of a request.
func readBody(r *http.Request) ([]byte, *refused) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "Content-Type must be application/json")
	}
	body, err := door.ReadBody(r, door.MaxBody)
	if err != nil {
		return nil, unread(err)
	}
	return body, nil
}

// unread refuses a request whose body can't be read.
func unread(err error) *refused {
	if full, ok := errors.AsType[*door.Refused](err); ok {
		no := busy(full.Wait, full.Text)
		no.status = full.Status
		return no
	}
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("%d bytes are the most: put large data into a session piece by piece", door.MaxBody))
	}
	return refuse(http.StatusBadRequest, "the body can't be read")
}

// mirrored returns the fault in the headers that repeat what a message says, or nil. Proxies decide by these headers.
func mirrored(r *http.Request, m *message) *fault {
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	switch {
	case version != "" && !mcp.IsValidProtocolVersion(version):
		return m.unsupported(version)
	case !m.modern && mcp.IsModernProtocol(version):
		return m.refuse(mcp.HEADER_MISMATCH, fmt.Sprintf("the header %s says %s, and _meta does not", mcp.HeaderProtocolVersion, version))
	case !m.modern:
		return nil
	case version != m.version:
		return m.refuse(mcp.HEADER_MISMATCH, fmt.Sprintf("the header %s must say %s, as _meta does", mcp.HeaderProtocolVersion, m.version))
	}
	if err := mcp.ValidateStandardHeaders(r.Header.Get, m.version, mcp.MCPMethod(m.method), m.Params); err != nil {
		return m.refuse(mcp.HEADER_MISMATCH, clip(err.Error(), 500))
	}
	return nil
}
