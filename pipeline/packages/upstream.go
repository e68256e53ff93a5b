package packages

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress"
)

// upstream makes the requests of a proxy outside the sandbox: through the operator's proxy, with
// the operator's certificates and credentials.
type upstream struct {
	set      settings
	safe     *http.Transport
	unsafe   *http.Transport // for hosts whose certificates the operator does not want checked
	counters *hostCounters

	named   map[string]bool // "host:port" that may resolve to any address, because the operator named it
	proxies sync.Map        // likewise, of the operator's proxies
	outside egress.Dialer   // refuses addresses that are not of the internet
	private atomic.Bool     // a source is on a private address, so what it links to may be, too
}

// newUpstream returns an upstream with the operator's settings, which counts its requests in t.
func newUpstream(set settings, t *hostCounters) *upstream {
	u := &upstream{set: set, counters: t, named: map[string]bool{}}
	for _, s := range set.sources {
		u.named[address(s.base)] = true
	}
	make := func(c *tls.Config) *http.Transport {
		return &http.Transport{
			Proxy: u.proxy, DialContext: u.dial, TLSClientConfig: c, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second,
			TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: time.Minute,
		}
	}
	u.safe = make(&tls.Config{RootCAs: set.roots, Certificates: set.client})
	u.unsafe = make(&tls.Config{Certificates: set.client, InsecureSkipVerify: true})
	return u
}

// close closes idle connections. The caller has ended the requests.
func (u *upstream) close() {
	u.safe.CloseIdleConnections()
	u.unsafe.CloseIdleConnections()
}

// proxy returns the operator's proxy for a request, nil for none, and records its address for dial.
func (u *upstream) proxy(r *http.Request) (*url.URL, error) {
	if u.set.proxy == nil {
		return nil, nil
	}
	p, err := u.set.proxy(r.URL)
	if p != nil {
		u.proxies.Store(address(p), true)
	}
	return p, err
}

// wrongAddress is the error for a link into a network that the sources have no part in.
type wrongAddress struct{ addr netip.Addr }

func (w wrongAddress) Error() string {
	return fmt.Sprintf("it is at %s, where no registry that is configured is", w.addr)
}

// dial connects. The operator's own sources may be at any address; links of pages may lead to private addresses only if a
// source is at one, and never to those of cloud metadata services (169.254.169.254 and the like).
func (u *upstream) dial(ctx context.Context, network, to string) (net.Conn, error) {
	_, proxy := u.proxies.Load(strings.ToLower(to))
	source := u.named[strings.ToLower(to)]
	d := net.Dialer{Timeout: 20 * time.Second, Control: func(_, at string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(at)
		if err != nil {
			return err
		}
		local := egress.Owned(ap.Addr())
		if source && local {
			u.private.Store(true)
		}
		if source || proxy || u.may(ap.Addr()) {
			return nil
		}
		return wrongAddress{ap.Addr()}
	}}
	return d.DialContext(ctx, network, to)
}

// may reports whether a page's link may lead to an address.
func (u *upstream) may(a netip.Addr) bool {
	return u.outside.Refuses(a) == "" || u.private.Load() && egress.Owned(a)
}

// check refuses a link whose host is a forbidden address: the operator's proxy would connect to it, without dial.
func (u *upstream) check(to *url.URL) error {
	a, err := netip.ParseAddr(to.Hostname())
	if err != nil || u.named[address(to)] || u.may(a) {
		return nil
	}
	return wrongAddress{a}
}

// RoundTrip implements [http.RoundTripper]: one request to one host, counted. A redirect is another request, with the
// credentials of its target.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if h := u.set.authorize(r.URL); h != "" {
		r.Header.Set("Authorization", h)
	}
	t := u.safe
	if u.set.untrusted != nil && (u.set.untrusted(r.URL.Hostname()) || u.set.untrusted(address(r.URL))) {
		t = u.unsafe
	}
	why, _ := r.Context().Value(reason{}).(string)
	port, _ := strconv.Atoi(portOf(r.URL))
	var answer *http.Response
	err := u.check(r.URL)
	if err == nil {
		answer, err = t.RoundTrip(r)
	}
	if wrong, is := errors.AsType[wrongAddress](err); is {
		u.counters.count(r.URL.Hostname(), port, false, wrong.Error())
		return nil, err
	}
	h := u.counters.count(r.URL.Hostname(), port, true, why)
	if err == nil {
		answer.Body = &counted{answer.Body, h}
	}
	return answer, err
}

// reason is the context key of the reason for a request, a string.
type reason struct{}

// counted adds the bytes that are read to n.
type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.n.Add(int64(n))
	return n, err
}

// redirects returns an error after 10 redirects, or for one from https to http. Redirects are followed outside: a registry
// may keep its files anywhere.
func redirects(r *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("more than 10 redirects")
	}
	if last := via[len(via)-1]; last.URL.Scheme == "https" && r.URL.Scheme != "https" {
		return fmt.Errorf("%s redirects to plain http", last.URL.Host)
	}
	return nil
}
