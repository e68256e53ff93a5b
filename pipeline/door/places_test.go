package door

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// place is a connection of a test.
type place struct {
	net.Conn
	in *bufio.Reader
}

// connect connects from an address of loopback, "" on a Unix socket.
func connect(t *testing.T, d *Door, from string) place {
	t.Helper()
	conn := net.Conn(nil)
	if from == "" {
		conn = dial(t, d)
	} else {
		conn = must((&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", strings.TrimPrefix(d.Address(), "http://")))
		t.Cleanup(func() { conn.Close() })
	}
	return place{conn, bufio.NewReader(conn)}
}

// asks sends a request in the name of somebody, "" of nobody, and reports whether it is answered.
func (p place) asks(who string) bool {
	head := "GET / HTTP/1.1\r\nHost: localhost\r\n"
	if who != "" {
		head += "Who: " + who + "\r\n"
	}
	if _, err := io.WriteString(p, head+"\r\n"); err != nil {
		return false
	}
	r, err := http.ReadResponse(p.in, nil)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode == http.StatusOK
}

// closed reports whether the server has closed the connection.
func (p place) closed() bool {
	_ = p.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer p.SetReadDeadline(time.Time{})
	_, err := p.in.Peek(1)
	failed, ok := err.(net.Error)
	return err != nil && !(ok && failed.Timeout())
}

func answers(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }

// A client without credentials takes no place away from one with credentials, and a client that has more than a quarter
// of the places makes room for others.
func TestPlaces(t *testing.T) {
	b := usual
	b.connections, b.each = 16, 8
	for name, network := range map[string]struct {
		from   string
		places int
	}{"of an address": {"127.0.0.1", 8}, "of all": {"", 16}} {
		t.Run(name, func(t *testing.T) {
			c := Config{Handler: whose(answers)}
			if network.from == "" {
				c.Address = unixPrefix + t.TempDir() + "/s"
			}
			d, log := start(t, c, b)
			quarter := network.places / 4
			var honest, hog, nobody []place
			join := func(to *[]place, who string) bool {
				p := connect(t, d, network.from)
				*to = append(*to, p)
				return p.asks(who)
			}
			for range quarter {
				if !join(&honest, "honest") {
					t.Fatal("there was room")
				}
			}
			for i := range 3 * network.places { // strangers
				if !join(&nobody, "") {
					t.Errorf("stranger %d is not answered", i)
				}
			}
			for _, p := range nobody[:2*network.places] {
				hosttest.Until(t, "the oldest ones have ended", p.closed)
			}
			for i := range 2 * network.places {
				if !join(&hog, "hog") {
					t.Errorf("connection %d of the one that has most is not answered", i)
				}
			}
			if !join(&honest, "newcomer") {
				t.Error("a newcomer is not answered")
			}
			for i, p := range honest {
				if !p.asks("honest") {
					t.Errorf("connection %d of who keeps below a quarter has ended", i)
				}
			}
			if n := strings.Count(log.String(), "too many connections"); n != 1 {
				t.Errorf("the log says it %d times: %s", n, log)
			}
		})
	}
}

// Where each has its share, the newcomer is refused, and finds a place when one is left.
func TestNoPlace(t *testing.T) {
	b := usual
	b.connections, b.each = 4, 4
	d, _ := start(t, Config{Handler: whose(answers)}, b)
	var all []place
	for _, who := range []string{"a", "b", "c", "d"} {
		p := connect(t, d, "127.0.0.1")
		if all = append(all, p); !p.asks(who) {
			t.Fatalf("%s is not answered", who)
		}
	}
	if connect(t, d, "127.0.0.1").asks("e") {
		t.Error("a fifth one was served")
	}
	for i, p := range all {
		if !p.asks("a") {
			t.Errorf("%d has ended", i)
		}
	}
	all[0].Close()
	hosttest.Until(t, "a connection that closed makes room", func() bool { return connect(t, d, "127.0.0.2").asks("e") })
}

func TestAddressOf(t *testing.T) {
	proxies := must(ParseProxies([]string{"192.0.2.9", "2001:db8:9::/48"}))
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "127.0.0.7": "127.0.0.0/8",
		"2001:db8:1:2:3::1": "2001:db8:1:2::/64", "192.0.2.9": "", "::ffff:192.0.2.9": "", "2001:db8:9::1": ""} {
		if got := proxies.addressOf(&net.TCPAddr{IP: net.ParseIP(address), Zone: "eth0"}); got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
}

// The connections of a trusted proxy are of many clients, and count for no address.
func TestPlacesOfProxy(t *testing.T) {
	b := usual
	b.connections, b.each = 8, 2
	d, _ := start(t, Config{Handler: whose(answers), Proxies: must(ParseProxies([]string{"127.0.0.1"}))}, b)
	var all []place
	for i := range b.connections {
		p := connect(t, d, "127.0.0.1")
		if all = append(all, p); !p.asks("client") {
			t.Fatalf("connection %d of the proxy is not answered", i)
		}
	}
	for i, p := range all {
		if !p.asks("client") {
			t.Errorf("connection %d of the proxy has ended", i)
		}
	}
}

// A connection that has proved nothing has little time between requests, over TLS and HTTP/2, too; others, and one with
// a request under way, have as much as they like.
func TestUnprovenIdle(t *testing.T) {
	b := usual
	b.unproven = time.Second // in which a client must come to its first request
	slow := make(chan struct{})
	c := Config{Handler: whose(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-slow
		}
		answers(w, r)
	})}
	d, _ := start(t, c, b)
	friend := connect(t, d, "127.0.0.1")
	if !friend.asks("a") {
		t.Fatal("no answer")
	}
	stranger := connect(t, d, "127.0.0.1")
	if !stranger.asks("") {
		t.Fatal("no answer")
	}
	fresh, busy := connect(t, d, "127.0.0.1"), connect(t, d, "127.0.0.1")
	must(io.WriteString(busy, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	hosttest.Until(t, "who has proved nothing is gone", stranger.closed)
	hosttest.Until(t, "so is who has said nothing", fresh.closed)
	close(slow)
	if !friend.asks("") {
		t.Error("who has proved something is gone")
	}
	if r, err := http.ReadResponse(busy.in, nil); err != nil || r.StatusCode != 200 {
		t.Errorf("a request that takes longer: %v", err)
	}

	ca := newAuthority(t)
	c.Cert, c.Key = ca.server(t, t.TempDir())
	d, _ = start(t, c, b)
	address := strings.TrimPrefix(d.Address(), "https://")
	silent := place{must(net.Dial("tcp", address)), nil}
	defer silent.Close()
	silent.in = bufio.NewReader(silent)
	hosttest.Until(t, "who shakes no hand is gone", silent.closed)
	conn := must(tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}))
	defer conn.Close()
	must(io.WriteString(conn, http2.ClientPreface))
	if err := http2.NewFramer(conn, nil).WriteSettings(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, conn); close(over) }()
	<-over
}
