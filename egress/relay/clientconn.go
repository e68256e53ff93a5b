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
	headerTimeout = 30 * time.Second // for a request's headers to come
	idleTimeout   = 2 * time.Minute  // between two requests
	maxHeader     = 256 << 10        // bytes of a request's headers
)

// clientConn is a client connection, and the connections to the name that its requests need.
type clientConn struct {
	relay  *Relay
	route  Route
	secure bool // TLS was ended, and there is TLS to the name

	first  *http.Transport // to the name: HTTP/1.1, or what ALPN says
	second *http.Transport // likewise: HTTP/2 by prior knowledge, for clients that speak it
	dials  closableGroup
}

func (c *clientConn) scheme() string {
	if c.secure {
		return "https"
	}
	return "http"
}

// serve serves the requests on conn, which are in the clear, until it ends.
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
	// A program that fetches may ask for another name with its next request, as one may ask a proxy.
	server.SetKeepAlivesEnabled(c.secure || c.relay.cfg.Fetch == nil)
	server.Serve(&singleListener{conn: conn, ended: ended}) // its only error is that of single
	handlers.closeAndWait()                                 // that of a WebSocket goes on for long
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

// closableGroup is a sync.WaitGroup to which nothing can be added after end.
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
