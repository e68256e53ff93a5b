package egresstest

import (
	"bufio"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
)

// canary is the response of every server that must not be reached, and of some others.
const canary = "canary-was-reached"

func serverOf(c net.Conn) string {
	at, _ := netip.ParseAddrPort(c.LocalAddr().String())
	return serverAt(at.Addr().Unmap())
}

// noting is a listener that records the first bytes of its connections in the journal.
type noting struct {
	net.Listener
	*journal
}

func (l noting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &notedConn{Conn: c, journal: l.journal}, nil
}

type notedConn struct {
	net.Conn
	*journal
	log bytesLog
}

func (c *notedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.log.record(p[:n])
	return n, err
}

func (c *notedConn) Close() error {
	c.log.once.Do(func() { c.record("bytes", serverOf(c), "%q", c.log.String()) })
	return c.Conn.Close()
}

// CloseWrite lets servers close only their half.
func (c *notedConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// helloed records in the journal the name that a client requests.
func (w *world) helloed(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{cert},
		NextProtos:   []string{"h2", "http/1.1"},
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			w.record("tls", serverOf(h.Conn), "%s", h.ServerName)
			return nil, nil
		},
	}
}

// web serves the site of every name; some have pages of their own.
func (w *world) web(pages map[string]http.Handler) http.Handler {
	own := http.NewServeMux()
	own.HandleFunc("/echo", echo)
	own.HandleFunc("/redirect", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, r.FormValue("to"), http.StatusTemporaryRedirect)
	})
	own.HandleFunc("/big", bulk)
	events(own)
	own.HandleFunc("/ws", webSocket)
	own.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintln(rw, canary) })
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		at := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		addr, _ := netip.ParseAddrPort(at.String())
		name := serverAt(addr.Addr().Unmap())
		w.record("request", name, "%s %s host=%s url=%s", r.Method, r.Proto, r.Host, r.URL.Host)
		if page := pages[name]; page != nil {
			page.ServeHTTP(rw, r)
			return
		}
		own.ServeHTTP(rw, r)
	})
}

// echo responds with the request.
func echo(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"host": r.Host, "proto": r.Proto, "method": r.Method, "body": n})
}

func bulk(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	w.Header().Set("Content-Length", strconv.Itoa(n))
	block := make([]byte, 64<<10)
	for n > 0 {
		k, err := w.Write(block[:min(n, len(block))])
		if err != nil {
			return
		}
		n -= k
	}
}

// events sends events one by one: the next one only after the program has received this one and requested more.
func events(mux *http.ServeMux) {
	more := make(chan struct{})
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
			select {
			case <-more:
			case <-r.Context().Done():
				return
			}
		}
	})
	mux.HandleFunc("/more", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case more <- struct{}{}:
		case <-r.Context().Done():
		}
	})
}

// webSocket echoes each short message, with the necessary part of RFC 6455.
func webSocket(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "HTTP/1.1 is wanted", http.StatusUpgradeRequired)
		return
	}
	defer c.Close()
	fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	for {
		text, err := message(rw.Reader)
		if err != nil {
			return
		}
		c.Write(append([]byte{0x81, byte(len(text))}, text...))
	}
}

func message(r *bufio.Reader) ([]byte, error) {
	head := make([]byte, 6) // with a mask, as RFC 6455 requires of clients
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	text := make([]byte, head[1]&0x7f)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	for i := range text {
		text[i] ^= head[2+i%4]
	}
	return text, nil
}

// sendBack echoes without any protocol: when the client closes its half, the server does, too.
func sendBack(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
			c.(*notedConn).CloseWrite()
		}()
	}
}
