package relay

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Fetch makes a relay one that only fetches: TLS to all names is terminated, and requests are passed on if they ask for
// something, by GET or HEAD, and bring nothing but the address and a few headers. A program can't publish or
// log in with them. Its functions may be called concurrently.
type Fetch struct {
	// Permit returns why an address may not be fetched, or how the request is authorized: the header, in which
	// placeholders of secrets stand. "" is none.
	Permit func(*url.URL) (authorization string, err error)
	// OnAnswer is shown each answer, and may change it. An error is why it is not passed on, and quotes nothing of it.
	OnAnswer func(*http.Response) error
	// OnFailure is called with the reason why a request has no answer.
	OnFailure func(reason string)

	Proxy        func(*http.Request) (*url.URL, error) // as in http.Transport; Route.Dial then connects to it
	Certificates []tls.Certificate                     // for names that ask for one
	Unverified   func(name string, port int) bool      // names whose certificates are not verified; nil is none
}

// fetchHeaders are the headers that are passed on. Neither Authorization nor Cookie: they would be credentials of the
// program's own.
var fetchHeaders = []string{"Accept", "Accept-Encoding", "Range", "User-Agent"}

// permitFetch refuses what does not only fetch, and authorizes the rest. What stays of r has no upgrade to another protocol.
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
		r.Header.Set("Accept-Encoding", "gzip") // which Decoded knows
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
