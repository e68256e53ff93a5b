package egress

import (
	"context"
	"errors"
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

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// greeter accepts connections on a loopback address and sends that address.
func greeter(t testing.TB, address string) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, l.Addr())
			conn.Close()
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().(*net.TCPAddr)
}

func TestDial(t *testing.T) {
	at := greeter(t, "127.0.0.1:0")
	greeter(t, fmt.Sprintf("127.0.0.2:%d", at.Port))
	greeter(t, fmt.Sprintf("[::1]:%d", at.Port))
	z := newZone(t, map[string]string{
		"one.example.": "127.0.0.1", "two.example.": "127.0.0.2", "six.example.": "::1", "mapped.example.": "::ffff:127.0.0.2",
		"dead.example.": "127.0.0.3 127.0.0.4 127.0.0.5 127.0.0.2", "refused.example.": "127.0.0.3", "both.example.": "10.0.0.1 127.0.0.2",
		"half.example.": "2001:db8::1 127.0.0.2",
	})
	d := z.dialer(t, "127.0.0.0/8", "::1")
	for name, want := range map[string]string{
		"one.example": "127.0.0.1", "TWO.example.": "127.0.0.2", "six.example": "[::1]", "mapped.example": "127.0.0.2",
		"dead.example": "127.0.0.2", "both.example": "127.0.0.2", "half.example": "127.0.0.2",
	} {
		conn, err := d.Dial(t.Context(), name, at.Port)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(conn)
		if conn.Close(); err != nil || string(got) != fmt.Sprintf("%s:%d", want, at.Port) {
			t.Errorf("%s: got %s %v, want %s", name, got, err, want)
		}
		if _, ok := conn.(*net.TCPConn); !ok {
			t.Errorf("%s: a %T can't be spliced", name, conn)
		}
	}
	_, err := d.Dial(t.Context(), "Refused.example", at.Port)
	if want := fmt.Sprintf("refused.example: connection refused at 127.0.0.3:%d", at.Port); err == nil || err.Error() != want ||
		!errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, port := range []int{0, -1, 65536, 65536 + at.Port} {
		if conn, err := d.Dial(t.Context(), "one.example", port); err == nil || conn != nil || !strings.Contains(err.Error(), "not a TCP port") {
			t.Errorf("port %d: %v", port, err)
		}
	}
	strict := z.dialer(t)
	for _, name := range []string{"one.example", "six.example", "mapped.example", "dead.example", "both.example", "127.0.0.1", "localhost",
		"::1"} {
		if conn, err := strict.Dial(t.Context(), name, at.Port); err == nil || conn != nil {
			t.Errorf("%s: got %v", name, conn.RemoteAddr())
		}
	}
}

// TestRebinding has a resolver that changes its answer: the dialer connects to the checked address.
func TestRebinding(t *testing.T) {
	at := greeter(t, "127.0.0.1:0") // must not be reached
	greeter(t, fmt.Sprintf("127.0.0.2:%d", at.Port))
	good, bad := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")
	orders := map[string]func(n int64) []netip.Addr{
		"good, then bad": func(n int64) []netip.Addr { return []netip.Addr{[]netip.Addr{good, bad}[min(n-1, 1)]} },
		"alternating":    func(n int64) []netip.Addr { return []netip.Addr{[]netip.Addr{bad, good}[n%2]} },
		"mixed":          func(int64) []netip.Addr { return []netip.Addr{bad, good, bad} },
		"in disguise":    func(int64) []netip.Addr { return []netip.Addr{netip.AddrFrom16(bad.As16()), good} },
		"with a zone": func(int64) []netip.Addr {
			return []netip.Addr{netip.AddrFrom16(bad.As16()).WithZone("lo"), netip.IPv6Loopback().WithZone("lo"), good}
		},
	}
	for name, order := range orders {
		r := &answers{each: func(n int64, _ string) []netip.Addr { return order(n) }}
		d := &Dialer{Resolver: r, Networks: networks(t, "127.0.0.2")}
		reached := 0
		for range 20 {
			conn, err := d.Dial(t.Context(), "a.example", at.Port)
			var blocked *Blocked
			if err != nil && !errors.As(err, &blocked) {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				reached++
				if got := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr(); got != good {
					t.Errorf("%s: reached %s", name, got)
				}
				conn.Close()
			}
			d.lookups, d.failed = lazy.Cache[[]netip.Addr]{}, lazy.Cache[error]{} // as if they had expired
		}
		if reached == 0 {
			t.Errorf("%s: never reached what is allowed", name)
		}
	}
}

// TestCheckBeforeConnect has an address that passed the first check, and would fail now.
func TestCheckBeforeConnect(t *testing.T) {
	at := greeter(t, "127.0.0.1:0").AddrPort()
	for _, to := range []netip.AddrPort{at, netip.AddrPortFrom(netip.AddrFrom16(at.Addr().As16()), at.Port()),
		netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())} {
		conn, failures := new(Dialer).dialFirst(t.Context(), []netip.Addr{to.Addr()}, to.Port(), nil)
		if conn != nil {
			t.Fatalf("%s was connected to", to)
		}
		err := bestError(t.Context(), "a.example", failures)
		if want := "a.example is at " + to.Addr().Unmap().String(); !errors.As(err, new(*Blocked)) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	// An unexpected zone.
	if a := new(Dialer).connect(t.Context(), netip.AddrPortFrom(netip.IPv6Loopback().WithZone("lo"), at.Port()), nil); a.err == nil {
		t.Error("a zone was connected to")
	}
}

// deaf returns an address that neither accepts nor refuses connections: its backlog is full.
func deaf(t *testing.T, ip [4]byte, port int) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: ip, Port: port}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port = name.(*syscall.SockaddrInet4).Port
	conn, err := net.Dial("tcp", netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(port)).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	hosttest.Until(t, "the backlog is full", func() bool {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		return err == nil && info.Unacked > info.Sacked // for a listener: the length and the capacity of its backlog
	})
	return port
}

func TestHappyEyeballs(t *testing.T) {
	port := deaf(t, [4]byte{127, 0, 0, 1}, 0)
	greeter(t, fmt.Sprintf("127.0.0.2:%d", port))
	mute, refused, good := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.1.1"), netip.MustParseAddr("127.0.0.2")
	d := &Dialer{Networks: networks(t, "127.0.0.0/8")}
	start := time.Now()
	conn, failures := d.dialFirst(t.Context(), []netip.Addr{mute, refused, good}, uint16(port), nil)
	if conn == nil || time.Since(start) < attemptDelay {
		t.Fatalf("%v after %v, which is less than the first had", failures, time.Since(start))
	}
	conn.Close()
	if len(failures) != 2 || !errors.Is(failures[0].err, syscall.ECONNREFUSED) || !errors.Is(failures[1].err, context.Canceled) {
		t.Errorf("got %v, want one that refuses, and one that was given up while it still waited", failures)
	}
	synctest.Test(t, func(t *testing.T) { // refusals take no time
		start := time.Now()
		conn, failures := d.dialFirst(t.Context(), []netip.Addr{refused, refused, refused, good}, uint16(port), nil)
		if conn == nil || time.Since(start) > 0 {
			t.Fatalf("%v after %v", failures, time.Since(start))
		}
		conn.Close()
	})

	late := &Dialer{Networks: d.Networks, Resolver: &answers{each: func(int64, string) []netip.Addr { return []netip.Addr{mute} }}}
	want, err := fmt.Sprintf("deaf.example: no answer from 127.0.0.1:%d in time", port), error(nil)
	for late.Timeout = 50 * time.Millisecond; ; late.Timeout *= 2 {
		if _, err = late.Dial(t.Context(), "deaf.example", port); err == nil || !strings.Contains(err.Error(), "the resolver") {
			break // otherwise a slow machine would have no time left to connect
		}
	}
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	late.Timeout = 0
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err = late.Dial(ctx, "deaf.example", port); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestInterleave(t *testing.T) {
	for in, want := range map[string]string{
		"1.1.1.1": "1.1.1.1",
		"2600::1 2600::2 2600::3 1.1.1.1 1.1.1.2": "2600::1 1.1.1.1 2600::2 1.1.1.2 2600::3",
		"1.1.1.1 2600::1 2600::2 2600::3":         "1.1.1.1 2600::1 2600::2 2600::3",
		"1.1.1.1 1.1.1.2 1.1.1.3 2600::1":         "1.1.1.1 2600::1 1.1.1.2 1.1.1.3",
	} {
		var addrs []netip.Addr
		for _, text := range strings.Fields(in) {
			addrs = append(addrs, netip.MustParseAddr(text))
		}
		if got := strings.Trim(fmt.Sprint(interleave(addrs)), "[]"); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// TestManyDials is a test for the race detector.
func TestManyDials(t *testing.T) {
	at := greeter(t, "127.0.0.1:0")
	z := newZone(t, map[string]string{"a.example.": "127.0.0.1 127.0.0.9", "b.example.": "127.0.0.1", "c.example.": "10.0.0.1"})
	d := z.dialer(t, "127.0.0.0/8")
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			name := []string{"a.example", "b.example", "c.example", "d.example"}[i%4]
			conn, err := d.Dial(t.Context(), name, at.Port)
			if (err == nil) != (i%4 < 2) {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				conn.Close()
			}
		})
	}
	all.Wait()
}

func BenchmarkDial(b *testing.B) {
	at := greeter(b, "127.0.0.1:0")
	z := newZone(b, map[string]string{"a.example.": "127.0.0.1"})
	d := z.dialer(b, "127.0.0.0/8")
	run := func(dial func() (net.Conn, error)) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				conn, err := dial()
				if err != nil {
					b.Fatal(err)
				}
				conn.(*net.TCPConn).SetLinger(0) // keeps ports free
				conn.Close()
			}
		}
	}
	b.Run("direct", run(func() (net.Conn, error) { return net.Dial("tcp", at.String()) }))
	b.Run("name", run(func() (net.Conn, error) { return d.Dial(b.Context(), "a.example", at.Port) }))
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			d.Resolve(b.Context(), "a.example")
		}
	})
}

// TestWithout: the dialer does not connect to an address that the sandbox's rules deny, and does to others of the
// name.
func TestWithout(t *testing.T) {
	at := greeter(t, "127.0.0.1:0").AddrPort()
	greeter(t, fmt.Sprintf("127.0.0.2:%d", at.Port()))
	d := &Dialer{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Resolver: &answers{each: func(int64, string) []netip.Addr {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	}}}
	var denied []netip.Prefix
	dial := d.DialWithout(func() []netip.Prefix { return denied })
	for _, c := range []struct {
		deny string
		want string // the reached address, or a part of the error
	}{
		{"", "127.0.0.1"}, {"127.0.0.1/32", "127.0.0.2"}, {"127.0.0.0/30", "which the sandbox's own rules deny"}, {"0.0.0.0/0", "own rules deny"},
	} {
		if denied = nil; c.deny != "" {
			denied = []netip.Prefix{netip.MustParsePrefix(c.deny)}
		}
		conn, err := dial(t.Context(), "a.example", int(at.Port()))
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %s", c.deny, err, c.want)
		case err == nil:
			if got := conn.RemoteAddr().String(); !strings.HasPrefix(got, c.want+":") {
				t.Errorf("%s: reached %s, want %s", c.deny, got, c.want)
			}
			conn.Close()
		}
	}
}
