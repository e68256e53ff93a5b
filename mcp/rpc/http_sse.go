package rpc

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// openSSE answers GET /sse with a stream of what there is to say to the client, to whose messages it tells the address.
func (h *HTTP) openSSE(w http.ResponseWriter, r *http.Request, of caller) *refused {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		return refuse(http.StatusMethodNotAllowed, "send GET: messages go to the address that the stream begins with, or use /mcp")
	}
	s, no := h.open(r, of, newStream())
	if no != nil {
		return no
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
	a := response{w: w, to: s.sse, events: door.BeginEvents(w)}
	defer a.events.Close()
	a.chunk("event: endpoint\ndata: " + path + "?sessionId=" + s.id + "\n\n")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	a.follow(ctx)
	return nil
}

// postSSE takes a message of a client whose stream openSSE writes.
func (h *HTTP) postSSE(w http.ResponseWriter, r *http.Request, of caller) *refused {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		return refuse(http.StatusMethodNotAllowed, "send POST")
	}
	m, no := read(r)
	if no != nil {
		return no
	}
	s, no := h.session(r.URL.Query().Get("sessionId"), of)
	if no != nil {
		return no
	}
	defer h.leave(s)
	if s.sse == nil {
		return refuse(http.StatusNotFound, "this is no session of /sse")
	}
	if !s.conn.heard(m) {
		m.key = string(m.ID)
		m.release = door.VisitOf(r.Context()).Keep()
		var bad *Fault
		err := door.Decode(r.Context(), m.size, 0, func() error {
			if bad = s.conn.admit(m); bad == nil {
				bad = s.conn.request(s.ctx, m, s.sse, s.sse.send)
			}
			return nil
		})
		if err != nil || bad != nil {
			m.release()
		}
		switch {
		case err != nil:
			return unread(err)
		case bad != nil:
			s.sse.send(bad.encode())
		}
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}
