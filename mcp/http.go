package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
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

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// The library's handlers of HTTP are of its server, which package dispatch.go does without.

const (
	// maxSessions are sessions of the protocols before 2026-07-28 at once, and maxOwnSessions those of one identity.
	maxSessions, maxOwnSessions = 1024, 256
	// sessionIdle is how long a session is known that nobody uses.
	sessionIdle = time.Hour
	// heartbeat is how often a response says that it lives: proxies drop connections that are silent, most after 30 s or 60 s.
	heartbeat = 15 * time.Second

	headerSession = "Mcp-Session-Id"
)

// HTTP answers clients that identity has told apart: /mcp is streamable HTTP of all versions of the protocol, and /sse with /message the
// transport of 2024-11-05. Each may have /NAMESPACE behind it. /v1/tools/NAME is one operation without the protocol.
// An identity has a server of its own for each of its namespaces.
type HTTP struct {
	cfg   Config
	paths map[string]http.HandlerFunc
	held  budget
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

// httpSession is a client's, or what all requests of a caller outside of sessions have in common.
type httpSession struct {
	id   string // "" outside of sessions
	of   caller
	conn *conn
	ctx  context.Context // ends with it, and with its token
	sse  *stream         // of the transport of 2024-11-05; nil otherwise

	// Guarded by HTTP.mu.
	busy int // requests that use it
	used time.Time
	gone bool
}

// NewHTTP returns a handler that works as cfg says. What it serves must have an identity in its context.
func NewHTTP(cfg Config) *HTTP {
	h := &HTTP{cfg: cfg, end: make(chan struct{}), idle: sessionIdle, callers: map[caller]*httpSession{}, sessions: map[string]*httpSession{}}
	h.paths = map[string]http.HandlerFunc{"mcp": h.called(h.streamable), "sse": h.called(h.openSSE), "message": h.called(h.postSSE)}
	go h.sweep()
	return h
}

// ServeHTTP answers one request. http.ServeMux would answer /mcp//NAMESPACE by a redirect, and what it does not know by text.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.EscapedPath(), "/") // "", the handler's, and a namespace
	if tool, ok := strings.CutPrefix(r.URL.Path, toolsPath); ok {
		h.operate(w, r, tool)
		return
	}
	if len(parts) == 3 && parts[2] != "" {
		namespace, _ := url.PathUnescape(parts[2]) // which is well-formed
		r.SetPathValue("namespace", namespace)
		parts = parts[:2]
	}
	if len(parts) == 2 && h.paths[parts[1]] != nil {
		h.paths[parts[1]](w, r)
		return
	}
	refuseHTTP(w, http.StatusNotFound, "there is nothing at this path: use /mcp or /mcp/NAMESPACE")
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

// endAnswered ends the stream of a session that gets no more requests. The mutex is held.
func (h *HTTP) endAnswered(s *httpSession) {
	if h.draining && s.sse != nil && s.busy == 1 { // by the stream
		go func() {
			s.conn.calls.Wait()
			s.conn.end(errHangUp)
		}()
	}
}

// Close ends all sessions and cancels what they do. It returns when that has ended.
func (h *HTTP) Close() {
	h.Drain()
	h.dropAll(func(*httpSession) bool { return true })
	h.calls.Wait()
}

// called returns a handler that knows who calls, in which namespace.
func (h *HTTP) called(next func(http.ResponseWriter, *http.Request, caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		of, status, text := h.caller(r)
		if text != "" {
			refuseHTTP(w, status, text)
			return
		}
		next(w, r, of)
	}
}

// caller returns who calls, in which namespace, or why nobody does.
func (h *HTTP) caller(r *http.Request) (of caller, status int, refused string) {
	i, known := identity.From(r.Context())
	if !known {
		return of, http.StatusUnauthorized, "nobody is identified"
	}
	namespace := cmp.Or(r.PathValue("namespace"), r.URL.Query().Get("namespace"), h.cfg.Namespace)
	if namespace == "" && len(i.Namespaces) > 0 {
		namespace = i.Namespaces[0]
	}
	if namespace == "" && i.Kind != identity.Person || namespace != "" && !i.May(namespace) || h.cfg.Namespace != "" && namespace != h.cfg.Namespace {
		return of, http.StatusForbidden, "these credentials do not reach this namespace"
	}
	return caller{i.Owner(), namespace}, 0, ""
}

// refuseHTTP answers a request that has no message to answer.
func refuseHTTP(w http.ResponseWriter, status int, text string) {
	writeFault(w, status, &fault{code: mcp.INVALID_REQUEST, text: text})
}

func writeFault(w http.ResponseWriter, status int, f *fault) { writeMessage(w, status, f.encode()) }

func writeMessage(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // the client may be gone
}

// streamable answers a request to /mcp.
func (h *HTTP) streamable(w http.ResponseWriter, r *http.Request, of caller) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Method {
	case http.MethodPost:
		h.post(w, r, of)
	case http.MethodDelete:
		s := h.session(w, r.Header.Get(headerSession), of)
		if s == nil {
			return
		}
		h.drop(s)
		h.leave(s)
		w.WriteHeader(http.StatusNoContent)
	default: // no message of ours is sent by itself
		w.Header().Set("Allow", "POST, DELETE")
		refuseHTTP(w, http.StatusMethodNotAllowed, "send POST: this server has no stream for GET")
	}
}

// post answers the message in a request to /mcp.
func (h *HTTP) post(w http.ResponseWriter, r *http.Request, of caller) {
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		refuseHTTP(w, http.StatusNotAcceptable, "the header Accept must name application/json and text/event-stream")
		return
	}
	m, size := h.read(w, r)
	if m == nil {
		return
	}
	defer h.held.give(size)
	s := h.sessionFor(w, r, m, of)
	if s == nil {
		return
	}
	defer h.leave(s)
	begun := false
	if r.Header.Get(headerSession) == "" && s.id != "" {
		defer func() {
			if !begun || m.failed != 0 {
				h.drop(s)
			}
		}()
	}
	c := s.conn
	if s.id == "" && m.Method == nil {
		refuseHTTP(w, http.StatusBadRequest, "an answer belongs to a session: "+headerSession+" is missing")
		return
	}
	if c.heard(m) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.key = string(m.ID); s.id == "" { // ids are one client's, and many may have these credentials
		m.key = "\x00" + strconv.FormatInt(h.keys.Add(1), 10)
	}
	bad := c.admit(m)
	if bad == nil {
		bad = mirrored(r, m)
	}
	if bad != nil {
		writeFault(w, http.StatusBadRequest, bad)
		return
	}
	i, _ := identity.From(r.Context())
	a := response{w: w, to: newStream(), replied: make(chan []byte, 1)}
	if bad := c.request(identity.With(s.ctx, i), m, a.to, func(b []byte) { a.replied <- b }); bad != nil {
		writeFault(w, statusOf(bad.code), bad)
		return
	}
	begun = true
	// A client that goes away cancels what it waits for since the protocol 2026-07-28; before that, what was begun goes on. Credentials
	// that end cancel it in any case.
	defer c.cancelWith(r.Context(), m)()
	a.write(r.Context(), m, s)
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
	for _, value := range r.Header.Values("Accept") {
		for accepted := range strings.SplitSeq(value, ",") {
			t, _, err := mime.ParseMediaType(accepted)
			if err == nil && (t == kind || t == "*/*" || t == kind[:strings.Index(kind, "/")]+"/*") {
				return true
			}
		}
	}
	return false
}

// read reads the message of a request. It answers what can't be read, and returns nil then. The caller gives the size back to h.held.
func (h *HTTP) read(w http.ResponseWriter, r *http.Request) (m *message, size int) {
	body, size, status, text := h.body(w, r)
	switch status {
	case 0:
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
		writeFault(w, status, &fault{code: codeBusy, text: text})
		return nil, 0
	default:
		refuseHTTP(w, status, text)
		return nil, 0
	}
	m, bad := parse(line{text: bytes.TrimSpace(body)})
	if bad != nil {
		h.held.give(size)
		writeFault(w, http.StatusBadRequest, bad)
		return nil, 0
	}
	return m, size
}

// body reads the body of a request, or returns the status and the text of why it can't. The caller gives the size back to h.held.
func (h *HTTP) body(w http.ResponseWriter, r *http.Request) (body []byte, size, status int, refused string) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, 0, http.StatusUnsupportedMediaType, "Content-Type must be application/json"
	}
	size = maxLine
	if 0 <= r.ContentLength && r.ContentLength <= maxLine {
		size = int(r.ContentLength)
	}
	if !h.held.take(size) {
		return nil, 0, http.StatusServiceUnavailable, "busy: too many large requests are under way, try again when some have ended"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLine))
	if err == nil {
		return body, size, 0, ""
	}
	h.held.give(size)
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, 0, http.StatusRequestEntityTooLarge, fmt.Sprintf("%d bytes are the most: put large data into a session piece by piece", maxLine)
	}
	return nil, 0, http.StatusBadRequest, "the body can't be read"
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

// statusOf is the HTTP status that goes with the error of a request of the 2026-07-28 protocol, or of one that was not begun.
func statusOf(code int) int {
	switch code {
	case mcp.METHOD_NOT_FOUND:
		return http.StatusNotFound
	case codeBusy:
		return http.StatusServiceUnavailable
	case mcp.INVALID_REQUEST, mcp.INVALID_PARAMS, mcp.PARSE_ERROR, mcp.MISSING_REQUIRED_CLIENT_CAPABILITY:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// response is the response to one request: the answer as JSON, or a stream of events where something else comes before it.
type response struct {
	w       http.ResponseWriter
	to      *stream
	replied chan []byte // gets the answer, or nil if the client wants none
	streams bool        // it is one of events
}

// write writes the response, and returns when the request is answered, also if the client is gone by then.
func (a *response) write(ctx context.Context, m *message, s *httpSession) {
	if m.method == string(mcp.MethodInitialize) && s.id != "" {
		a.w.Header().Set(headerSession, s.id)
	}
	defer a.to.abandon()
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for ctx.Err() == nil {
		select {
		case n := <-a.to.notifications:
			a.event(encodeNotification(n))
		case b := <-a.to.messages:
			a.event(b)
		case <-alive.C:
			a.chunk(": alive\n\n")
		case b := <-a.replied:
			a.notified()
			status := http.StatusOK
			switch {
			case m.plain:
				status = m.status
			case m.modern && m.task == nil:
				status = statusOf(m.failed)
			}
			switch {
			case a.streams && b != nil:
				a.event(b)
			case a.streams:
			case b == nil:
				a.w.WriteHeader(http.StatusAccepted)
			default:
				writeMessage(a.w, status, b)
			}
			return
		case <-ctx.Done():
		}
	}
	a.to.abandon()
	<-a.replied
}

func (a *response) event(b []byte) { a.chunk("event: message\ndata: " + string(b) + "\n\n") }

// notified sends the notifications that wait: those before an answer go before it.
func (a *response) notified() {
	for range len(a.to.notifications) {
		a.event(encodeNotification(<-a.to.notifications))
	}
}

// chunk sends a piece of a stream at once. A client that is gone is noticed by the end of the request's context.
func (a *response) chunk(text string) {
	if !a.streams {
		a.streams = true
		a.w.Header().Set("Content-Type", "text/event-stream")
		a.w.Header().Set("X-Accel-Buffering", "no") // nginx would wait for more
	}
	_, _ = io.WriteString(a.w, text)
	_ = http.NewResponseController(a.w).Flush()
}

// openSSE answers GET /sse with a stream of what there is to say to the client, to whose messages it tells the address.
func (h *HTTP) openSSE(w http.ResponseWriter, r *http.Request, of caller) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		refuseHTTP(w, http.StatusMethodNotAllowed, "send GET: messages go to the address that the stream begins with, or use /mcp")
		return
	}
	s := h.open(w, r, of, newStream())
	if s == nil {
		return
	}
	defer func() {
		h.drop(s)
		h.leave(s)
	}()
	defer s.sse.abandon()
	w.Header().Set("Cache-Control", "no-store")
	path := "/message"
	if named := r.PathValue("namespace"); named != "" {
		path += "/" + url.PathEscape(named)
	}
	a := response{w: w, to: s.sse}
	a.chunk("event: endpoint\ndata: " + path + "?sessionId=" + s.id + "\n\n")
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for {
		select {
		case n := <-a.to.notifications:
			a.event(encodeNotification(n))
		case b := <-a.to.messages:
			a.notified()
			a.event(b)
		case <-alive.C:
			a.chunk(": alive\n\n")
		case <-s.ctx.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// postSSE takes a message of a client whose stream openSSE writes.
func (h *HTTP) postSSE(w http.ResponseWriter, r *http.Request, of caller) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		refuseHTTP(w, http.StatusMethodNotAllowed, "send POST")
		return
	}
	m, size := h.read(w, r)
	if m == nil {
		return
	}
	defer h.held.give(size)
	s := h.session(w, r.URL.Query().Get("sessionId"), of)
	if s == nil {
		return
	}
	defer h.leave(s)
	if s.sse == nil {
		refuseHTTP(w, http.StatusNotFound, "this is no session of /sse")
		return
	}
	if !s.conn.heard(m) {
		m.key = string(m.ID)
		bad := s.conn.admit(m)
		if bad == nil {
			bad = s.conn.request(s.ctx, m, s.sse, s.sse.send)
		}
		if bad != nil {
			s.sse.send(bad.encode())
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// sessionFor returns the session of a message, or what those outside of sessions have in common. It answers what has none, and returns nil
// then. The caller leaves it.
func (h *HTTP) sessionFor(w http.ResponseWriter, r *http.Request, m *message, of caller) *httpSession {
	if id := r.Header.Get(headerSession); id != "" {
		return h.session(w, id, of)
	}
	if m.method == string(mcp.MethodInitialize) {
		return h.open(w, r, of, nil)
	}
	s := h.outside(r, of)
	if s == nil {
		refuseDraining(w)
	}
	return s
}

// outside returns what a caller's requests outside of sessions have in common, or nil if no more are taken. The caller leaves it.
func (h *HTTP) outside(r *http.Request, of caller) *httpSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return nil
	}
	s := h.shared(r, of)
	s.busy++
	return s
}

// shared returns what a caller's requests outside of sessions have in common. The mutex is held.
func (h *HTTP) shared(r *http.Request, of caller) *httpSession {
	s := h.callers[of]
	if s == nil {
		cfg := h.cfg
		cfg.Namespace, cfg.User = of.namespace, of.owner
		s = h.make(r, of, New(cfg))
		s.conn.stateless.Store(true)
		h.callers[of] = s
	}
	return s
}

// ends reports whether no more requests are taken, and answers then. The mutex is held.
func (h *HTTP) ends(w http.ResponseWriter) bool {
	if h.draining {
		refuseDraining(w)
	}
	return h.draining
}

func refuseDraining(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	refuseHTTP(w, http.StatusServiceUnavailable, "the server ends")
}

// session returns a session of a caller by its id. It answers if there is none, and returns nil then. The caller leaves it.
func (h *HTTP) session(w http.ResponseWriter, id string, of caller) *httpSession {
	if id == "" {
		refuseHTTP(w, http.StatusBadRequest, "the session is missing: send "+headerSession)
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends(w) {
		return nil
	}
	s := h.sessions[id]
	if s == nil || s.of != of { // others' are not known
		refuseHTTP(w, http.StatusNotFound, "there is no such session: send initialize again")
		return nil
	}
	s.busy++
	return s
}

// open makes a session. It answers if there are too many, and returns nil then. The caller leaves it.
func (h *HTTP) open(w http.ResponseWriter, r *http.Request, of caller, sse *stream) *httpSession {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ends(w) {
		return nil
	}
	own := 0
	for _, s := range h.sessions {
		if s.of.owner == of.owner {
			own++
		}
	}
	if own >= maxOwnSessions || len(h.sessions) >= maxSessions {
		w.Header().Set("Retry-After", "60")
		writeFault(w, http.StatusServiceUnavailable, &fault{code: codeBusy, text: fmt.Sprintf("busy: an identity may have %d sessions and all together %d: end some with DELETE", maxOwnSessions, maxSessions)})
		return nil
	}
	s := h.make(r, of, h.shared(r, of).conn.s)
	s.id, s.sse, s.busy = rand.Text(), sse, 1
	h.sessions[s.id] = s
	return s
}

// make returns a session of a caller, which is dropped when the token of its first request does not hold any more. The mutex is held.
func (h *HTTP) make(r *http.Request, of caller, server *Server) *httpSession {
	ctx, end := identity.Lasting(r.Context())
	h.calls.Add(1)
	s := &httpSession{of: of, ctx: ctx, conn: newConn(server, &h.held, end), used: time.Now()}
	context.AfterFunc(ctx, func() { h.drop(s) })
	return s
}

// leave notes that a request does not use a session any more.
func (h *HTTP) leave(s *httpSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.busy--
	s.used = time.Now()
	h.finish(s)
	h.endAnswered(s)
}

// drop forgets a session, and cancels what it does.
func (h *HTTP) drop(s *httpSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(s)
}

func (h *HTTP) dropLocked(s *httpSession) {
	if s.gone {
		return
	}
	s.gone = true
	if s.id == "" {
		delete(h.callers, s.of)
	} else {
		delete(h.sessions, s.id)
	}
	s.conn.end(errHangUp)
	h.finish(s)
}

// finish lets go of what a session holds that is dropped and not used any more. The mutex is held.
func (h *HTTP) finish(s *httpSession) {
	if s.gone && s.busy == 0 {
		go func() {
			defer h.calls.Done()
			s.conn.calls.Wait()
		}()
	}
}

// sweep drops sessions that nobody has used for long.
func (h *HTTP) sweep() {
	each := time.NewTicker(h.idle / 60)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			h.dropIdle(time.Now())
		case <-h.end:
			return
		}
	}
}

func (h *HTTP) dropIdle(now time.Time) {
	h.dropAll(func(s *httpSession) bool {
		return s.busy == 0 && now.Sub(s.used) > h.idle && !s.conn.tasks.working()
	})
}

// dropAll drops what which reports, of sessions and of what is outside of them.
func (h *HTTP) dropAll(which func(*httpSession) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slices.AppendSeq(slices.Collect(maps.Values(h.sessions)), maps.Values(h.callers)) {
		if which(s) {
			h.dropLocked(s)
		}
	}
}
