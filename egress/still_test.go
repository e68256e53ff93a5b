package egress

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// still is a gateway whose connections are pipes of this process: unlike for sockets, synctest can detect that they
// wait, so that time passes only when nothing else can happen.
type still struct {
	*Gateway
	t         *testing.T
	port      int
	listeners chan net.Conn
	once      sync.Once
	over      chan struct{}
}

// keepStill makes a still gateway in a synctest bubble. serve serves each connection to a name, which ends with it.
func keepStill(t *testing.T, port int, c Config, serve func(net.Conn)) *still {
	s := &still{t: t, port: port, listeners: make(chan net.Conn), over: make(chan struct{})}
	c = usual(c)
	c.Dial = func(context.Context, string, int) (net.Conn, error) {
		local, remote := net.Pipe()
		go func() { defer remote.Close(); serve(remote) }()
		return local, nil
	}
	s.Gateway = Open(c, Sockets{Ports: []net.Listener{s}})
	t.Cleanup(s.Gateway.Close)
	return s
}

func (s *still) Accept() (net.Conn, error) {
	select {
	case conn := <-s.listeners:
		return conn, nil
	case <-s.over:
		return nil, net.ErrClosed
	}
}

func (s *still) Addr() net.Addr { return nil }

// Close closes the listener.
func (s *still) Close() error {
	s.once.Do(func() { close(s.over) })
	return nil
}

type stillConn struct {
	net.Conn
	local net.Addr
}

func (c stillConn) LocalAddr() net.Addr { return c.local }

// connect connects to a.test. Received bytes are also put into the returned buffer.
func (s *still) connect() (net.Conn, *bytes.Buffer) {
	s.t.Helper()
	at, err := s.addresses.address("a.test")
	if err != nil {
		s.t.Fatal(err)
	}
	conn, inside := net.Pipe()
	s.listeners <- stillConn{inside, net.TCPAddrFromAddrPort(netip.AddrPortFrom(at, uint16(s.port)))}
	received := &bytes.Buffer{}
	go func() { _, _ = io.Copy(received, conn); conn.Close() }()
	s.t.Cleanup(func() { conn.Close() })
	return conn, received
}

// TestTooSlow has clients that begin a message and never end it.
func TestTooSlow(t *testing.T) {
	for _, begun := range []string{"GET / HT", "\x16\x03\x01\x02\x00\x01", "\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			var got bytes.Buffer
			s := keepStill(t, 7777, Config{}, func(conn net.Conn) { _, _ = io.Copy(&got, conn) })
			conn, _ := s.connect()
			_, _ = io.WriteString(conn, begun)
			time.Sleep(sniffTimeout - 1)
			synctest.Wait()
			if r := s.TakeRecords(); len(r) != 1 || !r[0].Allowed {
				t.Errorf("%q, before its time is over: %+v", begun, r)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if r := s.TakeRecords(); len(r) != 1 || r[0].Allowed || !strings.Contains(r[0].Reason, "too long") || got.Len() > 0 {
				t.Errorf("%q: %+v, and the server got %q", begun, r, &got)
			}
		})
	}
}

// TestIdle checks that idle connections end after a time, and not before.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = time.Second
		s := keepStill(t, 7777, Config{Idle: idle}, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
		silent, _ := s.connect()
		half, _ := s.connect()
		busy, back := s.connect()
		open := func(want ...net.Conn) {
			t.Helper()
			synctest.Wait()
			if n := s.Gateway.open.Load(); n != int64(len(want)) {
				t.Errorf("%d connections are open, want %d", n, len(want))
			}
		}
		_, _ = half.Write([]byte{1})
		for range 9 {
			time.Sleep(idle / 10)
			_, _ = busy.Write([]byte{1})
		}
		open(silent, half, busy)
		time.Sleep(idle / 10)
		open(busy)
		for range 20 {
			_, _ = busy.Write([]byte{1})
			time.Sleep(idle - 1)
		}
		open(busy)
		time.Sleep(time.Nanosecond)
		open()
		if back.Len() != 29 {
			t.Errorf("%d bytes came back", back.Len())
		}
	})
}

// TestServerSpeaksHTTPFirst has servers whose first bytes must not let other protocols pass.
func TestServerSpeaksHTTPFirst(t *testing.T) {
	for _, greeting := range []string{"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", "H",
		"\x00\x00\x00\x04\x00\x00\x00\x00\x00"} {
		synctest.Test(t, func(t *testing.T) {
			var got bytes.Buffer
			s := keepStill(t, 7777, Config{}, func(conn net.Conn) {
				_, _ = io.WriteString(conn, greeting)
				_, _ = io.Copy(&got, conn)
			})
			conn, _ := s.connect()
			synctest.Wait()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
			synctest.Wait()
			if strings.Contains(got.String(), "evil") {
				t.Errorf("after %q the server got %q", greeting, &got)
			}
		})
	}
}

// TestSlowForeignHost pauses in the middle of a request line for another name: its end, and the bytes after it,
// must not reach the server.
func TestSlowForeignHost(t *testing.T) {
	for _, port := range []int{7777, 80} {
		for name, parts := range map[string][]string{
			"method":  {"GE", "T / HTTP/1.1\r\nHost: evil.test\r\n\r\n"},
			"blank":   {" ", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"},
			"target":  {"GET http://evil.te", "st/ HTTP/1.1\r\n\r\n"},
			"version": {"FOO / HT", "TP/1.1\r\nHost: evil.test\r\n\r\n"},
			"no CR":   {"GET / HTTP/1.1", "\nHost: evil.test\n\n"},
			"old":     {"GET http://evil.test", "/\r\n"},
			"drops":   {"G", "E", "T", " /", " HTTP", "/1.1\r", "\nHost: evil.test\r\n\r\n"},
		} {
			t.Run(fmt.Sprint(name, port), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var got bytes.Buffer
					s := keepStill(t, port, Config{}, func(conn net.Conn) { _, _ = io.Copy(&got, conn) })
					conn, _ := s.connect()
					for _, part := range parts {
						_, _ = io.WriteString(conn, part)
						time.Sleep(pause + 1)
						synctest.Wait()
					}
					if s := got.String(); strings.Contains(s, "evil.test") || strings.Contains(s, "\n") && !strings.Contains(s, "Host: a.test") {
						t.Errorf("the server got %q", s)
					}
					prefix := map[string]string{"method": "GE", "version": "FOO / HT", "drops": "GET"}[name]
					if port == 80 {
						prefix = ""
					}
					if got.String() != prefix {
						t.Errorf("the server was shown %q, want %q", &got, prefix)
					}
					records := s.TakeRecords()
					if late := strings.Contains(fmt.Sprint(records), "now it is a request"); len(prefix) > 0 != late {
						t.Errorf("got %+v", records)
					}
				})
			})
		}
	}
}

// TestPostgresSilence has a client stop in the middle of a message that is not PostgreSQL.
func TestPostgresSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		s := keepStill(t, 7777, Config{}, func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 8))
			_, _ = io.WriteString(conn, "N")
			_, _ = io.Copy(&got, conn)
		})
		conn, response := s.connect()
		_, _ = conn.Write(postgresRequests[0])
		synctest.Wait()
		_, _ = io.WriteString(conn, "word")
		time.Sleep(2 * pause)
		s.Gateway.Close()
		synctest.Wait()
		if response.String() != "N" || got.Len() > 0 {
			t.Errorf("the client got %q, and the server got %q", response, &got)
		}
	})
}

// TestNoSpin has a listener that can't accept: retrying takes no CPU time.
func TestNoSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if retryAfter(t.Context(), syscall.EMFILE) || time.Since(start) < time.Millisecond {
			t.Errorf("it goes on after %v", time.Since(start))
		}
	})
}
