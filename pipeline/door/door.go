// Package door takes requests over HTTP, on TCP or a Unix socket, and has what all that answer them share. It refuses
// requests that a foreign page made a browser send, and bounds what one client can take. Who sends them, and what they
// may do, others find out.
//
// A connection has a place (places.go), a request is a visit (check.go, visit.go) whose bytes in memory count among its
// identity's (budget.go), its body and its answer come in time (body.go, deadlines.go, bounds.go), and what goes on for
// long takes a slot (slots.go). Handlers read bodies by read.go and form.go, refuse and reply by refused.go, and send
// streams with heartbeats by stream.go.
package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/coreos/go-systemd/v22/activation"
)

// Config says where and how requests are taken.
type Config struct {
	Address   string       // "127.0.0.1:8750", "[::1]:0", "unix:/path/to/socket", or "systemd" for the socket that systemd passes (LISTEN_FDS)
	Group     string       // of a Unix socket: who may connect besides its owner; "" is nobody (mode 0600, with a group 0660)
	Cert, Key string       // files of PEM; both or none; read again when they change, so that renewals need no restart
	ClientCA  string       // file of PEM, read likewise: certificates of clients are asked for, and verified against it; needs Cert
	Hosts     []string     // names in Host that are right besides the listener's own address and the loopback's names
	Origins   []string     // values of Origin that may send requests besides the same origin
	Proxies   Proxies      // whose connections count for no address
	Handler   http.Handler // everything but /healthz and /readyz
	// Largest is the most bytes of the body of a request, of which its handler holds no more than a piece in memory; 0 is
	// the bound of all. May be nil.
	Largest func(*http.Request) int64
	// Apart reports whether a Host is a name at which others than this server answer, whose pages and origins are theirs:
	// the handler passes it on, and neither /healthz nor the checks of Origin are there. Nil is none.
	Apart func(host string) bool
	// Open reports whether pages of any origin may send a request, whose handler trusts nothing that a browser adds by
	// itself. Nil is none.
	Open   func(*http.Request) bool
	Linked func(path string) bool // paths that pages of any origin may lead a browser to; nil is none
	Ready  func() error           // why /readyz is 503, as it tells everybody; nil is ready
	Log    *slog.Logger           // has nothing of requests; nil is nobody
}

const (
	unixPrefix  = "unix:"
	fromSystemd = "systemd"
)

// Check returns what is wrong with the settings, as far as they say by themselves. An Address that is missing is not.
func (c Config) Check() error {
	path, onUnix := strings.CutPrefix(c.Address, unixPrefix)
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("TLS needs a certificate and its key: set both tls_cert and tls_key, or neither")
	case c.ClientCA != "" && c.Cert == "":
		return errors.New("clients show certificates only over TLS: set tls_cert and tls_key, or leave out client_ca")
	case c.Group != "" && c.Address != "" && !onUnix:
		return errors.New("only a Unix socket that is made here has a group: listen at unix:PATH, or leave out socket_group")
	case onUnix && !filepath.IsAbs(path):
		return fmt.Errorf("%q is no absolute path of a socket", path)
	}
	for _, h := range c.Hosts {
		_, _, failed := net.SplitHostPort(h)
		_, literal := netip.ParseAddr(hostname(h))
		if h == "" || failed == nil || literal != nil && strings.ContainsAny(h, ":/*@[] ") {
			return fmt.Errorf("%q is no host: write a name or an address, without a port", h)
		}
	}
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || strings.Contains(o, "*") || o != strings.ToLower(u.Scheme+"://"+u.Host) {
			return fmt.Errorf("%q is no origin: write it as browsers do, such as https://app.example.com", o)
		}
	}
	return nil
}

// Door is a listener that serves requests. Its methods may be called concurrently.
type Door struct {
	c        Config
	b        bounds
	budget   *budget
	decoding []chan struct{} // has a value for each text that is decoded, by decodeLimits
	server   http.Server
	onUnix   bool
	hosts    []string // as hostname returns them
	address  string
	remove   func()
	draining atomic.Bool
	unready  atomic.Value // the last reason that was logged, a string
	failed   chan error
	ended    chan struct{}
}

// Listen listens and serves requests until Drain. ctx bounds how long it takes to begin.
func Listen(ctx context.Context, c Config) (*Door, error) { return listen(ctx, c, usual) }

func listen(ctx context.Context, c Config, b bounds) (*Door, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	secure, err := c.tls()
	if err != nil {
		return nil, err
	}
	l, remove, err := c.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("listen at %q: %w", c.Address, err)
	}
	d := &Door{c: c, b: b, onUnix: l.Addr().Network() == "unix", remove: remove, budget: newBudget(b), failed: make(chan error, 1), ended: make(chan struct{})}
	for _, l := range decodeLimits {
		d.decoding = append(d.decoding, make(chan struct{}, l.requests))
	}
	for _, h := range c.Hosts {
		d.hosts = append(d.hosts, hostname(h))
	}
	d.address = "http://" + l.Addr().String()
	if secure != nil {
		d.address = "https://" + l.Addr().String()
	}
	if d.onUnix {
		d.address = unixPrefix + l.Addr().String()
	}
	d.server = http.Server{
		Handler:                      d,
		TLSConfig:                    secure,
		Protocols:                    new(http.Protocols),
		DisableGeneralOptionsHandler: true, // OPTIONS * is checked like the others
		ReadHeaderTimeout:            b.header,
		IdleTimeout:                  b.idle,
		MaxHeaderBytes:               maxHeader,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: b.idle, PingTimeout: b.write, WriteByteTimeout: b.write,
			MaxReceiveBufferPerConnection: maxWindow, MaxReceiveBufferPerStream: maxWindow},
		ConnState:   noteState,
		ConnContext: withConnection,
		ErrorLog:    slog.NewLogLogger(c.Log.Handler(), slog.LevelInfo),
	}
	d.server.Protocols.SetHTTP1(true)
	d.server.Protocols.SetHTTP2(secure != nil)
	d.server.Protocols.SetUnencryptedHTTP2(secure == nil && d.onUnix)
	go d.serve(&places{Listener: l, b: b, proxies: c.Proxies, log: c.Log, byAddress: map[string]int{}})
	return d, nil
}

func (d *Door) serve(l net.Listener) {
	defer close(d.ended)
	serve := d.server.Serve
	if d.server.TLSConfig != nil {
		serve = func(l net.Listener) error { return d.server.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		d.failed <- fmt.Errorf("serve at %s: %w", d.address, err)
	}
}

// open listens at the address. remove removes what that leaves in the file system.
func (c Config) open(ctx context.Context) (l net.Listener, remove func(), err error) {
	if path, onUnix := strings.CutPrefix(c.Address, unixPrefix); onUnix {
		return listenUnix(ctx, path, c.Group)
	}
	if c.Address == fromSystemd {
		l, err = inheritedListener()
	} else {
		l, err = new(net.ListenConfig).Listen(ctx, "tcp", c.Address)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := c.checkExposure(l.Addr()); err != nil { // before a request is read
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, func() {}, nil
}

// checkExposure returns an error for an address that other machines reach, without TLS: tokens would be read on the way.
func (c Config) checkExposure(a net.Addr) error {
	if tcp, ok := a.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() || c.Cert != "" {
		return nil
	}
	return errors.New("other machines reach this address, and tokens need TLS on their way: set http.tls_cert and http.tls_key, or listen at 127.0.0.1 or at unix:PATH behind a proxy that has TLS")
}

// inheritedListener returns the one socket that systemd has passed.
func inheritedListener() (net.Listener, error) {
	all, err := activation.Listeners()
	if err == nil && len(all) == 1 && all[0] != nil {
		return all[0], nil
	}
	for _, l := range all {
		if l != nil {
			l.Close()
		}
	}
	return nil, errors.Join(err, fmt.Errorf("systemd passed %d sockets to this process: start it by a .socket unit with one ListenStream", len(all)))
}

// Address returns where it really listens, as a URL: "http://127.0.0.1:41233", "https://...", "unix:/path".
func (d *Door) Address() string { return d.address }

// Failed returns a channel that gets an error if serving ends by itself.
func (d *Door) Failed() <-chan error { return d.failed }

// Drain has /readyz answer 503, takes no more connections, waits for requests until ctx ends, and then cuts off the
// rest, which is an error. A stream of events has no end of its own: whoever serves streams ends them first.
func (d *Door) Drain(ctx context.Context) error {
	d.draining.Store(true)
	d.remove()
	err := d.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("drain %s: %w", d.address, err), d.server.Close())
	}
	<-d.ended
	return err
}

// tls returns nil without a certificate.
func (c Config) tls() (*tls.Config, error) {
	if c.Cert == "" {
		return nil, nil
	}
	f := &files{cert: c.Cert, key: c.Key, ca: c.ClientCA, log: c.Log}
	if _, err := f.config(nil); err != nil {
		return nil, fmt.Errorf("read the TLS certificate: %w", err)
	}
	return &tls.Config{GetConfigForClient: f.config, MinVersion: tls.VersionTLS12}, nil
}
