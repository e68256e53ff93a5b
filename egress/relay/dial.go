package relay

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	continueTimeout = 5 * time.Second // that a name has to agree to a body, RFC 9110 section 10.1.1
	bufferSize      = 64 << 10        // bytes, of each connection to a name in each direction
	resumed         = 64              // TLS sessions with names that can be resumed
)

// upstream is the set of connections to the name that a client's requests need.
type upstream struct {
	ctx    context.Context // ends with the client's connection
	dial   func(context.Context) (net.Conn, error)
	dials  closableGroup
	first  *http.Transport        // HTTP/1.1, or what ALPN says
	second func() *http.Transport // HTTP/2 by prior knowledge, for clients that speak it
}

func newUpstream(ctx context.Context, c *clientConn) *upstream {
	u := &upstream{ctx: ctx, dial: c.route.Dial}
	var one, two http.Protocols
	one.SetHTTP1(true)
	one.SetHTTP2(c.secure)
	two.SetUnencryptedHTTP2(true)
	u.first = u.transport(&one)
	u.first.TLSClientConfig = &tls.Config{RootCAs: c.relay.cfg.Roots, ClientSessionCache: c.relay.sessions}
	if f := c.relay.cfg.Fetch; f != nil {
		u.first.Proxy, u.first.TLSClientConfig.Certificates = f.Proxy, f.Certificates
		u.first.TLSClientConfig.InsecureSkipVerify = f.Unverified != nil && f.Unverified(c.route.Name, c.route.Port)
	}
	u.second = sync.OnceValue(func() *http.Transport { return u.transport(&two) })
	return u
}

// transport has no proxy from the environment: all that it does goes through dial.
func (u *upstream) transport(p *http.Protocols) *http.Transport {
	return &http.Transport{
		Protocols:             p,
		DialContext:           u.connect,
		DisableCompression:    true, // what the program did not ask for, it may not understand
		TLSHandshakeTimeout:   handshakeTimeout,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: continueTimeout,
		ReadBufferSize:        bufferSize,
		WriteBufferSize:       bufferSize,
	}
}

func (u *upstream) of(r *http.Request, secure bool) *http.Transport {
	if r.ProtoMajor == 2 && !secure {
		return u.second()
	}
	return u.first
}

// connect dials for a transport. net/http goes on with a dial whose request was given up: dials.end waits for it all the same.
func (u *upstream) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	if !u.dials.begin() {
		return nil, net.ErrClosed
	}
	defer u.dials.work.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(u.ctx, cancel)()
	nc, err := u.dial(ctx)
	if err != nil {
		return nil, dialError{err}
	}
	return conn{nc, context.AfterFunc(u.ctx, func() { nc.Close() })}, nil
}

// conn is a connection to a name. It ends with the client's connection.
type conn struct {
	net.Conn
	forget func() bool
}

func (c conn) Close() error {
	c.forget()
	return c.Conn.Close()
}

// CloseWrite lets a WebSocket end one half first.
func (c conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}
