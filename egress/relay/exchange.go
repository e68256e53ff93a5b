package relay

import (
	"net/http"
	"net/textproto"
	"strings"
)

// exchange is a request and its response.
type exchange struct {
	*clientConn
	key         string   // of the requested WebSocket
	filled      []Secret // secrets that may be in the request
	hasBodySlot bool     // a place for a body
}

// fillRequest puts the secrets that are bound to the name into r.
func (x *exchange) fillRequest(r *http.Request) error {
	bound := x.relay.bound(x.route.Name, x.route.Port)
	if len(bound) == 0 {
		return nil
	}
	if err := checkCredentials(r, bound); err != nil {
		return err
	}
	dropHopByHop(r.Header)
	var closed []Secret
	for _, s := range bound {
		if x.secure || s.Clear != nil && s.Clear(x.route.Name, x.route.Port) {
			x.filled = append(x.filled, s)
		} else {
			closed = append(closed, s)
		}
	}
	if err := x.refuseInClear(r, closed); err != nil {
		return err
	}
	if len(x.filled) == 0 {
		return nil
	}
	f, err := newSubstitution(x.filled)
	if err != nil {
		return err
	}
	if err := f.fillHeader(r); err != nil {
		return err
	}
	if err := f.setHeaders(r); err != nil {
		return err
	}
	if err := x.fillBody(f, r); err != nil {
		return err
	}
	// Redaction needs readable and whole answers: it can't find a value in pieces of four bytes. Servers may ignore Range,
	// RFC 9110 section 14.2.
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Del("Range")
	r.Header.Del("If-Range")
	if r.Header["Grpc-Accept-Encoding"] != nil {
		r.Header.Set("Grpc-Accept-Encoding", "identity")
	}
	return f.checkRequired(x.route.Name)
}

// refuseInClear refuses requests that would send TLS-only secrets in the clear.
func (x *exchange) refuseInClear(r *http.Request, closed []Secret) error {
	f := substitution{secrets: closed, values: make([]string, len(closed)), found: make([]bool, len(closed)), bytesLeft: maxAddedHeader}
	u := *r.URL
	if err := f.fillHeader(&http.Request{URL: &u, Header: r.Header.Clone()}); err != nil {
		return err
	}
	for i, s := range closed {
		if f.found[i] || s.Require || s.Header != "" {
			return refuse("the secret %s is sent to %s over TLS only: use https", s.Name, x.route.Name)
		}
	}
	return nil
}

// checkLeases returns an error if the lease of a secret that may have been put in was closed, so that its value can't
// be recognized. It is called after redacting: without an error, all leases were open during it.
func (x *exchange) checkLeases() error {
	for _, s := range x.filled {
		if s.Value() == "" {
			return badAnswer("the lease of the secret " + s.Name + " is closed")
		}
	}
	return nil
}

// mustRedact reports whether a response may contain a value.
func (x *exchange) mustRedact() bool { return len(x.filled) > 0 }

// dropHopByHop removes the headers that ReverseProxy will remove, except for an upgrade. It runs before the search for
// placeholders, so that every substituted secret is also sent.
func dropHopByHop(h http.Header) {
	upgrade := h.Get("Upgrade")
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = textproto.TrimString(name); !strings.EqualFold(name, "Upgrade") && !strings.EqualFold(name, "Te") {
				h.Del(name)
			}
		}
	}
	for _, name := range []string{"Proxy-Authorization", "Proxy-Authenticate", "Proxy-Connection", "Keep-Alive", "Trailer"} {
		h.Del(name)
	}
	h.Del("Connection")
	if upgrade != "" {
		h.Set("Connection", "Upgrade")
	}
}
