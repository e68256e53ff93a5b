package rpc

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// openSSE serves GET /sse: a stream that begins with the address for the client's messages.
func (h *HTTP) openSSE(w http.ResponseWriter, r *http.Request, from caller) *refusal {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		return refuse(http.StatusMethodNotAllowed, "send GET: messages go to the address that the stream begins with, or use /mcp")
	}
	s, no := h.openSession(r, from, newStream())
	if no != nil {
		return no
	}
	defer func() {
		h.drop(s)
		h.releaseSession(s)
	}()
	defer s.sse.abandon()
	w.Header().Set("Cache-Control", "no-store")
	path := "/message"
	if named := r.PathValue("namespace"); named != "" {
		path += "/" + url.PathEscape(named)
	}
	a := response{w: w, stream: s.sse, events: door.BeginEvents(w)}
	defer a.events.Close()
	a.writeChunk("event: endpoint\ndata: " + path + "?sessionId=" + s.id + "\n\n")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	a.streamUntilAnswer(ctx)
	return nil
}

// postSSE handles a message from a client with an open stream.
func (h *HTTP) postSSE(w http.ResponseWriter, r *http.Request, from caller) *refusal {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		return refuse(http.StatusMethodNotAllowed, "send POST")
	}
	m, no := readMessage(r)
	if no != nil {
		return no
	}
	s, no := h.acquireSession(r.URL.Query().Get("sessionId"), from)
	if no != nil {
		return no
	}
	defer h.releaseSession(s)
	if s.sse == nil {
		return refuse(http.StatusNotFound, "not a session of /sse")
	}
	if !s.conn.handleOneWay(m) {
		m.key = string(m.ID)
		m.release = door.VisitOf(r.Context()).RetainBody()
		var bad *Fault
		err := door.Decode(r.Context(), m.size, 0, func() error {
			if bad = s.conn.admit(m); bad == nil {
				bad = s.conn.startRequest(s.ctx, m, s.sse, s.sse.send)
			}
			return nil
		})
		if err != nil || bad != nil {
			m.release()
		}
		switch {
		case err != nil:
			return refuseBody(err)
		case bad != nil:
			s.sse.send(bad.encode())
		}
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}
