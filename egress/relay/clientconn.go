package relay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	headerTimeout = 30 * time.Second // for a request's headers
	idleTimeout   = 2 * time.Minute  // between two requests
	maxHeader     = 256 << 10        // bytes of a request's headers
)

// clientConn is a client connection, with the connections to the name for its requests.
type clientConn struct {
	relay  *Relay
	route  Route
	secure bool // TLS is terminated, and used to the name

	first  *http.Transport // to the name: HTTP/1.1, or by ALPN
	second *http.Transport // to the name: HTTP/2 by prior knowledge, for such clients
	dials  closableGroup
}

func (c *clientConn) scheme() string {
	if c.secure {
		return "https"
	}
	return "http"
}

// serve serves the decrypted requests on conn until it ends.
func (c *clientConn) serve(ctx context.Context, conn net.Conn) error {
	defer c.route.Client.Close()
	defer context.AfterFunc(ctx, func() { c.route.Client.Close() })()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	c.setTransports(inner)
	var handlers closableGroup
	ended := make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })

	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(c.secure)
	protocols.SetUnencryptedHTTP2(!c.secure)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if handlers.tryAdd() {
				defer handlers.work.Done()
				c.serveRequest(w, r)
			}
		}),
		Protocols:                    &protocols,
		DisableGeneralOptionsHandler: true, // OPTIONS * is for the name
		ReadHeaderTimeout:            headerTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		BaseContext:                  func(net.Listener) context.Context { return inner },
		ErrorLog:                     slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed || s == http.StateHijacked {
				end()
			}
		},
	}
	// A fetching program may request another name next, as from a proxy.
	server.SetKeepAlivesEnabled(c.secure || c.relay.cfg.Fetch == nil)
	server.Serve(&singleListener{conn: conn, ended: ended}) // its only error is that of singleListener
	handlers.closeAndWait()                                 // a WebSocket's handler may run for long
	cancel()
	c.dials.closeAndWait()
	return ctx.Err()
}

// singleListener is a listener of a single connection.
type singleListener struct {
	conn  net.Conn
	taken bool
	ended <-chan struct{}
}

// Accept returns the connection first, and then blocks until the server is done with it.
func (l *singleListener) Accept() (net.Conn, error) {
	if !l.taken {
		l.taken = true
		return l.conn, nil
	}
	<-l.ended
	return nil, errors.New("there was one connection only")
}

func (l *singleListener) Close() error   { return nil }
func (l *singleListener) Addr() net.Addr { return l.conn.LocalAddr() }

// closableGroup is a sync.WaitGroup that refuses additions after closeAndWait.
type closableGroup struct {
	mu    sync.Mutex
	ended bool
	work  sync.WaitGroup
}

func (c *closableGroup) tryAdd() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.work.Add(1)
	}
	return !c.ended
}

func (c *closableGroup) closeAndWait() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.work.Wait()
}
