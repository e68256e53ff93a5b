package relay

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Fetch makes a relay fetch-only: it terminates TLS to all names, and forwards only GET and HEAD requests with an
// address and a few headers, so that a program can't publish or log in. Its functions may be called concurrently.
type Fetch struct {
	// Permit returns an error if an address may not be fetched, or else the Authorization header, in which placeholders of
	// secrets may stand; "" is none.
	Permit func(*url.URL) (authorization string, err error)
	// OnAnswer is called with each answer, and may change it. An error blocks the answer, and must not quote it.
	OnAnswer func(*http.Response) error
	// OnFailure is called with the reason why a request has no answer.
	OnFailure func(reason string)

	Proxy        func(*http.Request) (*url.URL, error) // as in http.Transport; Route.Dial then connects to it
	Certificates []tls.Certificate                     // client certificates, for names that request one
	Unverified   func(name string, port int) bool      // names whose certificates are not verified; nil is none
}

// fetchHeaders are the forwarded headers. Neither Authorization nor Cookie: they would be credentials of the
// program's own.
var fetchHeaders = []string{"Accept", "Accept-Encoding", "Range", "User-Agent"}

// permitFetch refuses requests that do more than fetch, and authorizes the rest. It removes upgrades.
func (c *clientConn) permitFetch(r *http.Request) error {
	f := c.relay.cfg.Fetch
	if f == nil {
		return nil
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return refuse("only GET and HEAD are passed on to %s, and not %s", c.route.Name, quoteShort(r.Method))
	case r.ContentLength != 0:
		return refuse("only requests without a body are passed on to %s", c.route.Name)
	}
	for name := range r.Header {
		if !slices.Contains(fetchHeaders, name) {
			delete(r.Header, name)
		}
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		r.Header.Set("Accept-Encoding", "gzip") // Decoded supports it
	} else {
		r.Header.Set("Accept-Encoding", "identity")
	}
	r.Trailer = nil
	u := *r.URL
	u.Scheme, u.Host, u.User = c.scheme(), c.route.urlHost(c.scheme()), nil
	authorization, err := f.Permit(&u)
	if err != nil {
		return refuse("%s may not be fetched: %s", c.route.Name, err)
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return nil
}
