package rpc

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// httpSession is a client's session, or the state that a caller's requests without a session id share.
type httpSession struct {
	id     string // "" if shared
	caller caller
	conn   *conn
	ctx    context.Context // ends with the session, and with its token
	sse    *stream         // of the 2024-11-05 transport; nil otherwise

	// Guarded by HTTP.mu.
	users   int // requests that use the session
	used    time.Time
	dropped bool
}

// endDrainedStream ends the stream of a session that gets no more requests. The caller holds the mutex.
func (h *HTTP) endDrainedStream(s *httpSession) {
	if h.draining && s.sse != nil && s.users == 1 { // the stream itself
		go func() {
			s.conn.calls.Wait()
			s.conn.closeWith(errHangUp)
		}()
	}
}

// acquireFor returns the session of a message, or the caller's shared session. The caller of acquireFor releases it.
func (h *HTTP) acquireFor(r *http.Request, m *Message, from caller) (*httpSession, *refusal) {
	if id := r.Header.Get(headerSession); id != "" {
		return h.acquireSession(id, from)
	}
	if m.method == string(mcp.MethodInitialize) && m.ID != nil {
		return h.openSession(r, from, nil)
	}
	return h.acquireShared(r, from)
}

// acquireShared returns the shared session of a caller, to be released.
func (h *HTTP) acquireShared(r *http.Request, from caller) (*httpSession, *refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return nil, refuseDraining()
	}
	s := h.sharedSession(r, from)
	s.users++
	return s, nil
}

// sharedSession returns the shared session of a caller, and creates it if necessary. The mutex is held.
func (h *HTTP) sharedSession(r *http.Request, from caller) *httpSession {
	s := h.callers[from]
	if s == nil {
		s = h.newSession(r, from, h.serverFor(from.namespace, from.owner))
		s.conn.stateless.Store(true)
		h.callers[from] = s
	}
	return s
}

// acquireSession returns a caller's session by id, to be released.
func (h *HTTP) acquireSession(id string, from caller) (*httpSession, *refusal) {
	if id == "" {
		return nil, refuse(http.StatusBadRequest, "the session is missing: send "+headerSession)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return nil, refuseDraining()
	}
	s := h.sessions[id]
	if s == nil || s.caller != from { // sessions of other callers are unknown
		return nil, refuse(http.StatusNotFound, "unknown session: send initialize again")
	}
	s.users++
	return s, nil
}

// openSession creates a session, to be released. It refuses when there are too many.
func (h *HTTP) openSession(r *http.Request, from caller, sse *stream) (*httpSession, *refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return nil, refuseDraining()
	}
	own := 0
	for _, s := range h.sessions {
		if s.caller.owner == from.owner {
			own++
		}
	}
	if own >= maxOwnSessions || len(h.sessions) >= maxSessions {
		return nil, busy(time.Minute, fmt.Sprintf("busy: session limit reached (%d per identity, %d in all): end some with DELETE",
			maxOwnSessions, maxSessions))
	}
	s := h.newSession(r, from, h.sharedSession(r, from).conn.s)
	s.id, s.sse, s.users = rand.Text(), sse, 1
	h.sessions[s.id] = s
	return s, nil
}

// newSession returns a session of a caller, which is dropped when the token of r expires. The mutex is held.
func (h *HTTP) newSession(r *http.Request, from caller, server *Server) *httpSession {
	ctx, end := identity.WithoutRequest(r.Context())
	h.calls.Add(1)
	s := &httpSession{caller: from, ctx: ctx, conn: newConn(server, nil, end), used: time.Now()}
	context.AfterFunc(ctx, func() { h.drop(s) })
	return s
}

// releaseSession ends a request's use of a session.
func (h *HTTP) releaseSession(s *httpSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.users--
	s.used = time.Now()
	h.waitIfUnused(s)
	h.endDrainedStream(s)
}

// drop removes a session and cancels its requests.
func (h *HTTP) drop(s *httpSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(s)
}

func (h *HTTP) dropLocked(s *httpSession) {
	if s.dropped {
		return
	}
	s.dropped = true
	if s.id == "" {
		delete(h.callers, s.caller)
	} else {
		delete(h.sessions, s.id)
	}
	s.conn.closeWith(errHangUp)
	h.waitIfUnused(s)
}

// waitIfUnused lets Close wait for the calls of a dropped session without users. The mutex is held.
func (h *HTTP) waitIfUnused(s *httpSession) {
	if s.dropped && s.users == 0 {
		go func() {
			defer h.calls.Done()
			s.conn.calls.Wait()
		}()
	}
}

// dropIdleSessions drops idle sessions until Drain.
func (h *HTTP) dropIdleSessions() {
	each := time.NewTicker(h.idle / 60)
	defer each.Stop()
	for {
		select {
		case <-each.C:
			h.dropIdle(time.Now())
		case <-h.drained:
			return
		}
	}
}

func (h *HTTP) dropIdle(now time.Time) {
	h.dropWhere(func(s *httpSession) bool {
		return s.users == 0 && now.Sub(s.used) > h.idle && !s.conn.tasks.hasRunning()
	})
}

// dropWhere drops the sessions and shared sessions that match.
func (h *HTTP) dropWhere(which func(*httpSession) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slices.AppendSeq(slices.Collect(maps.Values(h.sessions)), maps.Values(h.callers)) {
		if which(s) {
			h.dropLocked(s)
		}
	}
}

// The library's HTTP handlers need its server, which this package does not use: see dispatch.go.

const (
	// maxSessions bounds the sessions of the protocols before 2026-07-28, and maxOwnSessions those of one identity.
	maxSessions, maxOwnSessions = 1024, 256
	// sessionIdle is how long an unused session lives.
	sessionIdle = time.Hour
)

// identifyCaller returns the identity and namespace of a request.
func (h *HTTP) identifyCaller(r *http.Request) (caller, *refusal) {
	i, known := identity.From(r.Context())
	if !known {
		return caller{}, refuse(http.StatusUnauthorized, "credentials are missing")
	}
	query := r.URL.Query()
	if query.Has("namespace") && query.Get("namespace") == "" {
		return caller{}, refuse(http.StatusBadRequest, "the namespace in the query is empty: set it or omit it")
	}
	namespace := cmp.Or(r.PathValue("namespace"), query.Get("namespace"), h.namespace)
	if own := i.Namespaces.Names(); namespace == "" && len(own) > 0 {
		namespace = own[0]
	}
	if namespace == "" && (i.Kind != identity.Person || !i.Namespaces.All()) || namespace != "" && !i.May(namespace) || h.namespace != "" &&
		namespace != h.namespace {
		return caller{}, refuse(http.StatusForbidden, "these credentials do not allow this namespace")
	}
	return caller{i.Owner(), namespace}, nil
}
