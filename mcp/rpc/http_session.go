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

// endAnswered ends the stream of a session that gets no more requests. The mutex is held.
func (h *HTTP) endAnswered(s *httpSession) {
	if h.draining && s.sse != nil && s.busy == 1 { // by the stream
		go func() {
			s.conn.calls.Wait()
			s.conn.end(errHangUp)
		}()
	}
}

// sessionFor returns the session of a message, or what those outside of sessions have in common. The caller leaves it.
func (h *HTTP) sessionFor(r *http.Request, m *Message, of caller) (*httpSession, *refused) {
	if id := r.Header.Get(headerSession); id != "" {
		return h.session(id, of)
	}
	if m.method == string(mcp.MethodInitialize) && m.ID != nil {
		return h.open(r, of, nil)
	}
	return h.outside(r, of)
}

// outside returns what a caller's requests outside of sessions have in common. The caller leaves it.
func (h *HTTP) outside(r *http.Request, of caller) (*httpSession, *refused) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return nil, draining()
	}
	s := h.shared(r, of)
	s.busy++
	return s, nil
}

// shared returns what a caller's requests outside of sessions have in common. The mutex is held.
func (h *HTTP) shared(r *http.Request, of caller) *httpSession {
	s := h.callers[of]
	if s == nil {
		s = h.make(r, of, h.serverFor(of.namespace, of.owner))
		s.conn.stateless.Store(true)
		h.callers[of] = s
	}
	return s
}

// session returns a session of a caller by its id. The caller leaves it.
func (h *HTTP) session(id string, of caller) (*httpSession, *refused) {
	if id == "" {
		return nil, refuse(http.StatusBadRequest, "the session is missing: send "+headerSession)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return nil, draining()
	}
	s := h.sessions[id]
	if s == nil || s.of != of { // others' are not known
		return nil, refuse(http.StatusNotFound, "there is no such session: send initialize again")
	}
	s.busy++
	return s, nil
}

// open makes a session, unless there are too many. The caller leaves it.
func (h *HTTP) open(r *http.Request, of caller, sse *stream) (*httpSession, *refused) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.draining {
		return nil, draining()
	}
	own := 0
	for _, s := range h.sessions {
		if s.of.owner == of.owner {
			own++
		}
	}
	if own >= maxOwnSessions || len(h.sessions) >= maxSessions {
		return nil, busy(time.Minute, fmt.Sprintf("busy: an identity may have %d sessions and all together %d: end some with DELETE", maxOwnSessions, maxSessions))
	}
	s := h.make(r, of, h.shared(r, of).conn.s)
	s.id, s.sse, s.busy = rand.Text(), sse, 1
	h.sessions[s.id] = s
	return s, nil
}

// make returns a session of a caller, which is dropped when the token of its first request does not hold any more. The
// mutex is held.
func (h *HTTP) make(r *http.Request, of caller, server *Server) *httpSession {
	ctx, end := identity.Lasting(r.Context())
	h.calls.Add(1)
	s := &httpSession{of: of, ctx: ctx, conn: newConn(server, nil, end), used: time.Now()}
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

// The library's handlers of HTTP are of its server, which dispatch.go does without.

const (
	// maxSessions are sessions of the protocols before 2026-07-28 at once, and maxOwnSessions those of one identity.
	maxSessions, maxOwnSessions = 1024, 256
	// sessionIdle is how long a session is known that nobody uses.
	sessionIdle = time.Hour
)

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
	namespace := cmp.Or(r.PathValue("namespace"), query.Get("namespace"), h.namespace)
	if own := i.Namespaces.Names(); namespace == "" && len(own) > 0 {
		namespace = own[0]
	}
	if namespace == "" && (i.Kind != identity.Person || !i.Namespaces.All()) || namespace != "" && !i.May(namespace) || h.namespace != "" && namespace != h.namespace {
		return caller{}, refuse(http.StatusForbidden, "these credentials do not reach this namespace")
	}
	return caller{i.Owner(), namespace}, nil
}
