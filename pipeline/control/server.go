package control

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// Listener serves an API on a control socket.
type Listener struct {
	api    *API
	socket *socket
	http   http.Server
	ended  chan struct{}
}

// Listen serves an API on a socket in dir, which it creates if missing; see [Dir]. It returns errors.ErrUnsupported
// if the kernel can't identify clients.
func Listen(dir string, a *API) (*Listener, error) {
	s, err := listen(dir, a.c.Server.PID)
	if err != nil {
		return nil, fmt.Errorf("listen for the command line in %q: %w", dir, err)
	}
	l := &Listener{api: a, socket: s, ended: make(chan struct{})}
	l.http = http.Server{
		Handler:           a,
		ReadHeaderTimeout: a.pace.read,
		ReadTimeout:       a.pace.read,
		WriteTimeout:      a.pace.write,
		IdleTimeout:       a.pace.read,
		MaxHeaderBytes:    maxBody,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, conn.(*known).uid)
		},
		ErrorLog: slog.NewLogLogger(a.c.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(l.ended)
		_ = l.http.Serve(&sameUser{Listener: s.listener, log: a.c.Log}) // ends with Close
	}()
	return l, nil
}

// Close removes the socket, closes the API, and gives running answers a moment.
func (l *Listener) Close() error {
	l.socket.remove()
	l.api.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), l.api.pace.close)
	defer cancel()
	err := l.http.Shutdown(ctx)
	if err != nil {
		err = l.http.Close()
	}
	<-l.ended
	l.api.Close()
	return err
}

// sameUser accepts only connections of this user and root, and bounds their number.
type sameUser struct {
	net.Listener
	log     *slog.Logger
	clients atomic.Int32
}

func (s *sameUser) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn)
		switch {
		case err != nil || !isAllowedUser(uid):
			s.log.Warn("control: another user was refused", "uid", uid, "error", err)
		case s.clients.Add(1) > maxClients:
			s.clients.Add(-1)
			s.log.Warn("control: too many clients", "uid", uid)
		default:
			return &known{Conn: conn, uid: uid, leave: sync.OnceFunc(func() { s.clients.Add(-1) })}, nil
		}
		conn.Close()
	}
}

// known is a connection with the uid of its peer.
type known struct {
	net.Conn
	uid   int
	leave func()
}

func (k *known) Close() error {
	k.leave()
	return k.Conn.Close()
}
