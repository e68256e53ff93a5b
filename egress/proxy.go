package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxProxyHead is the upper bound, in bytes, of the head of a request to a proxy.
const maxProxyHead = 64 << 10

// proxyTarget is the target of a program's request to a proxy.
type proxyTarget struct {
	name   string // a name or an address
	port   int
	tunnel bool   // by CONNECT
	held   []byte // bytes to read again: the whole request, or the bytes after CONNECT
}

// serveProxy decides about a proxy request, and forwards its connection, which carries one request or one tunnel.
func (g *Gateway) serveProxy(ctx context.Context, client net.Conn) {
	stop := context.AfterFunc(ctx, func() { reset(client) })
	t, err := readTarget(client)
	stop()
	if err != nil {
		rejectRequest(client, http.StatusBadRequest, "this is a proxy, and "+err.Error())
		return
	}
	ended := g.closings()
	d := g.config.Decide(ctx, t.name, t.port)
	counts, err := g.counters.countDecision(ctx, d)
	if err != nil {
		d = Decision{Name: d.Name, Port: d.Port, Reason: err.Error()}
		counts = g.counters.holdEntry(d)
	}
	if !d.Allowed {
		g.counters.release(counts)
		rejectRequest(client, http.StatusForbidden, d.Host()+" is refused: "+d.Reason)
		return
	}
	if t.tunnel {
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	}
	(&connection{g: g, client: client, name: t.name, port: t.port, held: t.held, closingsBefore: ended, counts: counts}).serve(ctx)
}

// readTarget reads the head of a request to a proxy.
func readTarget(client net.Conn) (t proxyTarget, err error) {
	_ = client.SetReadDeadline(time.Now().Add(sniffTimeout))
	defer client.SetReadDeadline(time.Time{})
	var all bytes.Buffer
	in := bufio.NewReader(io.TeeReader(io.LimitReader(client, maxProxyHead), &all))
	r, err := http.ReadRequest(in)
	if err != nil {
		return t, errors.New("the request is not HTTP")
	}
	t.tunnel, t.held = r.Method == http.MethodConnect, all.Bytes()
	port := r.URL.Port()
	switch {
	case t.tunnel:
		t.held, _ = in.Peek(in.Buffered())
	case r.URL.Scheme != "http":
		return t, errors.New("the request's address does not begin with http://")
	case port == "":
		port = "80"
	}
	t.name = strings.ToLower(strings.TrimSuffix(r.URL.Hostname(), "."))
	if t.port, err = strconv.Atoi(port); err != nil || t.port < 1 || t.port > 65535 || !isHost(t.name) {
		return t, fmt.Errorf("%s is not a host and port", quote(r.URL.Host))
	}
	return t, nil
}

// isHost reports whether a name has only characters of names and addresses.
func isHost(name string) bool {
	return name != "" && len(name) <= maxName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") == ""
}

// rejectRequest answers a proxy request with an error.
func rejectRequest(client net.Conn, status int, why string) {
	text := "sandboxmcp: " + why + "\n"
	_ = client.SetDeadline(time.Now().Add(refusalReadTime))
	fmt.Fprintf(client, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(text), text)
	if closeWrite(client) == nil {
		_, _ = io.CopyN(io.Discard, client, maxProxyHead) // unread bytes would reset the connection
	}
	_ = client.Close()
}
