package relay

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

const (
	continueTimeout = 5 * time.Second // to wait for 100 Continue, RFC 9110 section 10.1.1
	bufferSize      = 64 << 10        // bytes, of each connection to a name in each direction
	maxResumable    = 64              // number of resumable TLS sessions
)

// setTransports sets the transports to the name, until ctx ends.
func (c *clientConn) setTransports(ctx context.Context) {
	var one, two http.Protocols
	one.SetHTTP1(true)
	one.SetHTTP2(c.secure)
	two.SetUnencryptedHTTP2(true)
	c.first, c.second = c.newTransport(ctx, &one), c.newTransport(ctx, &two)
	c.first.TLSClientConfig = &tls.Config{RootCAs: c.relay.cfg.Roots, ClientSessionCache: c.relay.sessions}
	if f := c.relay.cfg.Fetch; f != nil {
		c.first.Proxy, c.first.TLSClientConfig.Certificates = f.Proxy, f.Certificates
		c.first.TLSClientConfig.InsecureSkipVerify = f.Unverified != nil && f.Unverified(c.route.Name, c.route.Port)
	}
}

// newTransport ignores the environment's proxy: all connections are made by dialName.
func (c *clientConn) newTransport(ctx context.Context, p *http.Protocols) *http.Transport {
	return &http.Transport{
		Protocols:             p,
		DialContext:           func(dial context.Context, _, _ string) (net.Conn, error) { return c.dialName(ctx, dial) },
		DisableCompression:    true, // the program may not support it
		TLSHandshakeTimeout:   handshakeTimeout,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: continueTimeout,
		ReadBufferSize:        bufferSize,
		WriteBufferSize:       bufferSize,
	}
}

// dialName dials for a transport. net/http continues the dial of a cancelled request: dials.closeAndWait waits for it,
// too.
func (c *clientConn) dialName(all, dial context.Context) (net.Conn, error) {
	if !c.dials.tryAdd() {
		return nil, net.ErrClosed
	}
	defer c.dials.work.Done()
	dial, cancel := context.WithCancel(dial)
	defer cancel()
	defer context.AfterFunc(all, cancel)()
	nc, err := c.route.Dial(dial)
	if err != nil {
		return nil, dialError{err}
	}
	return conn{nc, context.AfterFunc(all, func() { nc.Close() })}, nil
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

// CloseWrite supports WebSockets that end one half first.
func (c conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}
