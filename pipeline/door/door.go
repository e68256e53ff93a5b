// Package door accepts HTTP requests, on TCP or a Unix socket, and has the functions that all their handlers share. It
// refuses requests that a foreign page made a browser send, and bounds the resources of each client. Other packages
// identify callers and decide what they may do.
//
// A connection has a place (places.go). A request is a visit (check.go, visit.go) whose memory counts for its
// identity (budget.go), its body and its answer have deadlines (body.go, deadlines.go, bounds.go), and long work
// takes a slot (slots.go). Handlers read bodies with read.go and form.go, refuse and reply with refused.go, and send
// streams with heartbeats with stream.go.
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

// Config configures a listener and its checks.
type Config struct {
	Address   string       // "127.0.0.1:8750", "[::1]:0", "unix:/path/to/socket", or "systemd" for the socket that systemd passes (LISTEN_FDS)
	Group     string       // group that may connect to a Unix socket besides its owner; "" is none (mode 0600, with a group 0660)
	Cert, Key string       // PEM files; both or none; read again when they change, so that renewals need no restart
	ClientCA  string       // PEM file, read likewise: requests client certificates and verifies them; needs Cert
	Hosts     []string     // accepted names in Host, besides the listener's own address and loopback names
	Origins   []string     // accepted values of Origin, besides the same origin
	Proxies   Proxies      // trusted proxies; their connections count for no address
	Handler   http.Handler // handles everything except /healthz and /readyz
	// Largest returns the maximum size of a request's body whose handler keeps only a piece of it in memory; 0 is
	// MaxBody. May be nil.
	Largest func(*http.Request) int64
	// Apart reports whether a Host belongs to servers in sandboxes, with pages and origins of their own: the handler
	// forwards the request, without /healthz and the checks of Origin. May be nil.
	Apart func(host string) bool
	// Open reports whether pages of any origin may send a request, because its handler does not trust credentials
	// that browsers add by themselves. May be nil.
	Open   func(*http.Request) bool
	Linked func(path string) bool // paths to which pages of any origin may link; nil is none
	Ready  func() error           // public reason for 503 of /readyz; nil is ready
	Log    *slog.Logger           // gets no content of requests; nil logs nothing
}

const (
	unixPrefix  = "unix:"
	fromSystemd = "systemd"
)

// Check validates the settings as far as they can be without opening files. An empty Address is valid.
func (c Config) Check() error {
	path, onUnix := strings.CutPrefix(c.Address, unixPrefix)
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("TLS needs a certificate and its key: set both tls_cert and tls_key, or neither")
	case c.ClientCA != "" && c.Cert == "":
		return errors.New("client certificates need TLS: set tls_cert and tls_key, or remove client_ca")
	case c.Group != "" && c.Address != "" && !onUnix:
		return errors.New("socket_group needs a Unix socket: listen at unix:PATH, or remove socket_group")
	case onUnix && !filepath.IsAbs(path):
		return fmt.Errorf("the socket %q is not an absolute path", path)
	}
	for _, h := range c.Hosts {
		_, _, failed := net.SplitHostPort(h)
		_, literal := netip.ParseAddr(hostname(h))
		if h == "" || failed == nil || literal != nil && strings.ContainsAny(h, ":/*@[] ") {
			return fmt.Errorf("%q is not a host: write a name or an address, without a port", h)
		}
	}
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Host == "" || strings.Contains(o, "*") || o != strings.ToLower(u.Scheme+"://"+u.Host) {
			return fmt.Errorf("%q is not an origin: write it as browsers do, such as https://app.example.com", o)
		}
	}
	return nil
}

// Door is a listener that serves requests. Its methods may be called concurrently.
type Door struct {
	c        Config
	b        bounds
	budget   *budget
	decoding []chan struct{} // semaphores for decoding, by decodeLimits
	server   http.Server
	onUnix   bool
	hosts    []string // as hostname returns them
	address  string
	remove   func()
	draining atomic.Bool
	unready  atomic.Value // last logged reason, a string
	failed   chan error
	ended    chan struct{}
}

// Listen listens and serves requests until Drain. ctx bounds the start.
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
	d := &Door{c: c, b: b, onUnix: l.Addr().Network() == "unix", remove: remove, budget: newBudget(b), failed: make(chan error, 1),
		ended: make(chan struct{})}
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
		DisableGeneralOptionsHandler: true, // OPTIONS * gets the same checks
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

// open listens at the address. remove removes the socket file, if any.
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
	if err := c.checkExposure(l.Addr()); err != nil { // before any request is read
		return nil, nil, errors.Join(err, l.Close())
	}
	return l, func() {}, nil
}

// checkExposure refuses an address that other machines reach without TLS, because tokens could be read on the way.
func (c Config) checkExposure(a net.Addr) error {
	if tcp, ok := a.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() || c.Cert != "" {
		return nil
	}
	return errors.New("other machines can reach this address, and tokens need TLS: set http.tls_cert and http.tls_key, or listen at " +
		"127.0.0.1 or unix:PATH behind a proxy with TLS")
}

// inheritedListener returns the one socket that systemd passed.
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
	return nil, errors.Join(err, fmt.Errorf("systemd passed %d sockets to this process, want 1: start it with a .socket unit with one "+
		"ListenStream", len(all)))
}

// Address returns the actual address as a URL: "http://127.0.0.1:41233", "https://...", "unix:/path".
func (d *Door) Address() string { return d.address }

// Failed returns a channel that receives the error if serving fails.
func (d *Door) Failed() <-chan error { return d.failed }

// Drain makes /readyz answer 503, accepts no more connections, and waits for running requests until ctx ends; then it
// cuts off the rest, which is an error. Event streams do not end by themselves: their owner must end them first.
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

// tls returns the TLS configuration, nil without a certificate.
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
