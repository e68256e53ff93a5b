package egress

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// answering starts a server on a loopback address, and returns its port.
func answering(t *testing.T, address string) int {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skipf("no %s here: %v", address, err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestLocalPolicy: a local port is allowed by its number alone, and by no pattern.
func TestLocalPolicy(t *testing.T) {
	p, err := NewPolicy([]string{"example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	open := p.WithLocal([]int{3000})
	public, err := PublicWeb(nil)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := NewPolicy(nil, []string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		p    Policy
		name string
		port int
		want bool
	}{
		{open, "localhost", 3000, true}, {open, "LOCALHOST.", 3000, true}, {open, "localhost", 3001, false}, {open, "localhost", 80, false},
		{open, "localhost", 0, false},
		{open, "127.0.0.1", 3000, false}, {open, "a.localhost", 3000, false}, {open, "[::1]", 3000, false}, {open, "example.com", 3000, false},
		{open, "ｌocalhost", 3000, false},
		{p, "localhost", 3000, false}, {public, "localhost", 80, false}, {public.WithLocal([]int{3000}), "localhost", 80, false},
		{closed.WithLocal([]int{3000}), "localhost", 3000, false},
	} {
		if d := tt.p.Decide(tt.name, tt.port); d.Allowed != tt.want || d.Reason == "" || !tt.want && d.Name == Local && d.Ask != "" {
			t.Errorf("%s:%d: got %+v", tt.name, tt.port, d)
		}
	}
	for _, pattern := range []string{"localhost", "localhost:3000", "*.localhost:3000", "LocalHost.:3000"} {
		if _, err := NewPolicy([]string{pattern}, nil); err == nil {
			t.Errorf("%s is a pattern", pattern)
		}
		if open.Covers(pattern) {
			t.Errorf("%s is covered", pattern)
		}
	}
	local, others := CutLocal([]string{"localhost:3000", "localhost", "localhost:0", "localhost:65536", "localhost:+80", "localhost:080",
		"LOCALHOST.:443", "a.localhost:80", "127.0.0.1:80", "example.com:80"})
	if len(local) != 2 || local[0] != 3000 || local[1] != 443 || len(others) != 8 {
		t.Errorf("got %v, %q", local, others)
	}
}

// TestLocalDialer: only the name itself leads to the machine, on open ports, whatever other names resolve to.
func TestLocalDialer(t *testing.T) {
	open, closed := answering(t, "127.0.0.1:0"), answering(t, "127.0.0.1:0")
	d := &Dialer{Local: []int{open}, Resolver: &answers{
		each: func(int64, string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} }}}
	for _, tt := range []struct {
		name string
		port int
		want string // in the error
	}{
		{"localhost", open, ""}, {"LocalHost.", open, ""}, {"localhost", closed, "is not open to it"},
		{"127.0.0.1", open, "addresses can't be allowed"}, {"a.localhost", open, "localhost is the sandbox itself"},
		{"evil.test", open, "this machine (loopback)"},
	} {
		c, err := d.Dial(t.Context(), tt.name, tt.port)
		if err == nil {
			c.Close()
		}
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:%d: got %v, want %q", tt.name, tt.port, err, tt.want)
		}
	}
	if _, err := new(Dialer).Dial(t.Context(), "localhost", open); err == nil {
		t.Error("the zero value connects to the machine")
	}
	six := answering(t, "[::1]:0")
	d = &Dialer{Local: []int{six}}
	c, err := d.Dial(t.Context(), "localhost", six)
	if err != nil {
		t.Fatalf("a server on ::1 alone: %v", err)
	}
	c.Close()
}

// TestLocalGateway: in a sandbox 127.0.0.1 is the machine on an open port, whatever protocol is spoken there, and
// no other address is.
func TestLocalGateway(t *testing.T) {
	port := 3000
	w := in(t, port, Config{Decide: func(_ context.Context, name string, port int) Decision {
		return Policy{}.WithLocal([]int{3000}).Decide(name, port)
	}})
	w.server(Local, func(c *net.TCPConn) { io.Copy(c, c) })
	for address, want := range map[string]bool{"127.0.0.1": true, "127.0.0.2": false, "127.0.1.1": false, "127.64.0.1": false} {
		c, err := net.Dial("tcp", net.JoinHostPort(address, strconv.Itoa(w.port)))
		if err != nil && !want {
			continue // it was reset at once
		}
		if err != nil {
			t.Fatal(err)
		}
		const sent = "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"
		io.WriteString(c, sent)
		c.(*net.TCPConn).CloseWrite()
		got, _ := io.ReadAll(c)
		c.Close()
		if (string(got) == sent) != want {
			t.Errorf("%s: got %q", address, got)
		}
	}
	if n := w.dials.Load(); n != 1 {
		t.Errorf("%d connections to the machine", n)
	}
	closed := in(t, 3001, Config{Decide: func(_ context.Context, name string, port int) Decision {
		return Policy{}.WithLocal([]int{3000}).Decide(name, port)
	}})
	if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(closed.port))); err == nil { // or it was reset at once
		defer c.Close()
		if got, err := io.ReadAll(c); len(got) > 0 {
			t.Errorf("another port: %q, %v", got, err)
		}
	}
	if closed.dials.Load() > 0 {
		t.Error("another port was dialled")
	}
}
