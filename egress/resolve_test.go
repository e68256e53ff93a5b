package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// zone is a DNS server on loopback.
type zone struct {
	t     testing.TB
	addr  string
	names map[string]string // final dot: addresses, or "fail", "drop", "none", "big" and addresses

	questions atomic.Int64
	answers   sync.RWMutex // locked to delay the answers
}

func newZone(t testing.TB, names map[string]string) *zone {
	t.Helper()
	z := &zone{t: t, names: names}
	stream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z.addr = stream.Addr().String()
	packets, err := net.ListenPacket("udp", z.addr)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, from, err := packets.ReadFrom(b)
			if err != nil {
				return
			}
			if out := z.answer(b[:n], true); out != nil {
				packets.WriteTo(out, from)
			}
		}
	})
	all.Go(func() {
		for {
			conn, err := stream.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				b := make([]byte, 1<<16)
				if _, err := io.ReadFull(conn, b[:2]); err != nil {
					return
				}
				b = b[:binary.BigEndian.Uint16(b)]
				if _, err := io.ReadFull(conn, b); err != nil {
					return
				}
				out := z.answer(b, false)
				conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
			})
		}
	})
	t.Cleanup(func() { packets.Close(); stream.Close(); all.Wait() })
	return z
}

func (z *zone) answer(query []byte, udp bool) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		z.t.Error(err)
		return nil
	}
	q, err := p.Question()
	if err != nil {
		z.t.Error(err)
		return nil
	}
	z.questions.Add(1)
	z.answers.RLock()
	defer z.answers.RUnlock()
	words, known := z.names[q.Name.String()]
	h.Response, h.RecursionAvailable = true, true
	switch {
	case !known:
		h.RCode = dnsmessage.RCodeNameError
	case words == "fail":
		h.RCode = dnsmessage.RCodeServerFailure
	case words == "drop":
		return nil
	}
	texts := strings.Fields(words)
	if len(texts) > 0 && texts[0] == "big" {
		h.Truncated = udp
	}
	b := dnsmessage.NewBuilder(nil, h)
	b.StartQuestions()
	b.Question(q)
	b.StartAnswers()
	for _, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil || h.Truncated {
			continue
		}
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 3600}
		if a.Is4() && q.Type == dnsmessage.TypeA {
			b.AResource(head, dnsmessage.AResource{A: a.As4()})
		} else if a.Is6() && q.Type == dnsmessage.TypeAAAA {
			b.AAAAResource(head, dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
	out, err := b.Finish()
	if err != nil {
		z.t.Error(err)
	}
	return out
}

func (z *zone) dialer(t testing.TB, nets ...string) *Dialer {
	return &Dialer{Resolver: NewResolver(z.addr), Networks: networks(t, nets...)}
}

// sameSet compares without order: the system sorts addresses by reachability.
func sameSet(addrs []netip.Addr, want string) bool {
	texts := strings.Fields(want)
	for _, a := range addrs {
		if !strings.Contains(" "+want+" ", " "+a.String()+" ") {
			return false
		}
	}
	return len(addrs) == len(texts)
}

func TestResolve(t *testing.T) {
	many := "big"
	for i := range 300 {
		many += fmt.Sprintf(" 198.51.%d.%d", 100, i%256)
	}
	z := newZone(t, map[string]string{
		"a.example.": "203.0.113.5 203.0.113.6 2001:db8::5", "intranet.": "203.0.113.7", "big.example.": "big 203.0.113.8", "many.example.": many,
		"mixed.example.":   "10.0.0.1 203.0.113.5 127.0.0.1 fd00::1 2001:db8::5 169.254.169.254 ::ffff:10.0.0.1 64:ff9b::a00:1",
		"private.example.": "10.1.2.3 10.1.2.4", "meta.example.": "169.254.169.254", "mapped.example.": "::ffff:10.9.9.9",
		"zero.example.": "0.0.0.0",
		"none.example.": "none", "fail.example.": "fail", "twice.example.": "203.0.113.5 203.0.113.5",
		"half.example.": "::ffff:203.0.113.5 203.0.113.5",
		"nat.example.":  "64:ff9b::a00:1", "six.example.": "2002:a00:1::1", "xn--bcher-kva.example.": "203.0.113.9",
	})
	d := z.dialer(t)
	tests := []struct{ name, want, err string }{
		{"a.example", "203.0.113.5 203.0.113.6 2001:db8::5", ""},
		{"A.Example.", "203.0.113.5 203.0.113.6 2001:db8::5", ""},
		{"intranet", "203.0.113.7", ""},
		{"b\u00fccher.example", "203.0.113.9", ""},
		{"big.example", "203.0.113.8", ""},
		{"mixed.example", "203.0.113.5 2001:db8::5", ""},
		{"twice.example", "203.0.113.5", ""},
		{"half.example", "203.0.113.5", ""},
		{"private.example", "", " a private network (RFC 1918): the operator can name the network in egress.networks of the configuration " +
			"to allow it"},
		{"meta.example", "", "meta.example is at 169.254.169.254, where machines tell about themselves (cloud metadata): the operator can " +
			"name this very address in egress.networks of the configuration to allow it"},
		{"mapped.example", "", "mapped.example is at 10.9.9.9, a private network"},
		{"zero.example", "", "zero.example is at 0.0.0.0, this machine (0.0.0.0/8)"},
		{"nat.example", "", "nat.example is at 64:ff9b::a00:1, an address that stands for one of IPv4 (NAT64)"},
		{"six.example", "", "(6to4)"},
		{"none.example", "", "none.example does not exist, or has no address"},
		{"gone.example", "", "gone.example does not exist, or has no address"},
		{"fail.example", "", "fail.example: the resolver failed: server misbehaving"},
		{"127.0.0.1", "", "addresses can't be allowed"},
		{"0x7f.1", "", "addresses can't be allowed"},
		{"::1", "", "addresses can't be allowed"},
		{"localhost", "", "localhost is the sandbox itself"},
		{"a\x00.example", "", "can't be in a host name"},
	}
	for _, tt := range tests {
		got, err := d.Resolve(t.Context(), tt.name)
		if tt.err == "" && (err != nil || !sameSet(got, tt.want)) {
			t.Errorf("%s: got %v %v, want %s", tt.name, got, err, tt.want)
		}
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || strings.ContainsAny(err.Error(), "\n\x00")) {
			t.Errorf("%s: got %v %v, want %s", tt.name, got, err, tt.err)
		}
	}
	if got, err := d.Resolve(t.Context(), "many.example"); err != nil || len(got) != maxAddresses {
		t.Errorf("got %d addresses, %v", len(got), err)
	}
	var blocked *Blocked
	if _, err := d.Resolve(t.Context(), "private.example"); !errors.As(err, &blocked) || blocked.Name != "private.example" ||
		!blocked.Addr.IsPrivate() {
		t.Errorf("got %+v", err)
	}
	open := z.dialer(t, "10.1.0.0/16", "169.254.169.254")
	for name, want := range map[string]string{"private.example": "10.1.2.3 10.1.2.4", "meta.example": "169.254.169.254",
		"mixed.example": "203.0.113.5 2001:db8::5 169.254.169.254"} {
		if got, err := open.Resolve(t.Context(), name); err != nil || !sameSet(got, want) {
			t.Errorf("%s: got %v %v, want %s", name, got, err, want)
		}
	}
}

// TestSilent: a resolver that does not answer, or does not exist.
func TestSilent(t *testing.T) {
	z := newZone(t, map[string]string{"drop.example.": "drop"})
	d := z.dialer(t)
	d.Timeout = 200 * time.Millisecond
	_, err := d.Dial(t.Context(), "drop.example", 80)
	if err == nil || !strings.HasPrefix(err.Error(), "drop.example: the resolver did not answer") {
		t.Errorf("got %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	gone := &Dialer{Resolver: NewResolver(l.Addr().String())}
	if _, err := gone.Resolve(t.Context(), "a.example"); err == nil || !strings.HasPrefix(err.Error(), "a.example: the resolver failed: ") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Resolve(ctx, "drop.example"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestHosts: a name of the machine's hosts file needs no DNS, also with the final dot.
func TestHosts(t *testing.T) {
	file, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(file)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[1], "ip6-") {
			continue
		}
		want, err := netip.ParseAddr(fields[0])
		if _, wrong := canonical(fields[1]); err != nil || wrong != nil {
			continue
		}
		for _, r := range []Resolver{nil, NewResolver(newZone(t, nil).addr)} {
			got, err := (&Dialer{Resolver: r}).lookupCached(t.Context(), fields[1])
			if err != nil || !strings.Contains(fmt.Sprint(got), want.WithZone("").String()) {
				t.Errorf("%s: got %v %v, want %s", fields[1], got, err, want)
			}
		}
		return
	}
	t.Skip("the hosts file has no name but localhost")
}

// answers is a resolver for timing tests.
type answers struct {
	calls atomic.Int64
	take  time.Duration
	err   error
	each  func(n int64, host string) []netip.Addr
}

func (a *answers) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	n := a.calls.Add(1)
	select {
	case <-time.After(a.take):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.each(n, host), nil
}

func documented(n int64, _ string) []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(n)})}
}

// TestWholeNames: with the final dot, no resolver tries names of the search list.
func TestWholeNames(t *testing.T) {
	for name, want := range map[string]string{"a.example": "a.example.", "a.example.": "a.example.", "INTRANET": "intranet."} {
		var asked string
		r := &answers{each: func(n int64, host string) []netip.Addr { asked = host; return documented(n, host) }}
		if _, err := (&Dialer{Resolver: r}).Resolve(t.Context(), name); err != nil || asked != want {
			t.Errorf("%s: asked for %s, %v", name, asked, err)
		}
	}
}

func TestCachedLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &answers{take: time.Millisecond, each: documented}
		d := &Dialer{Resolver: r}
		want := func(last byte, calls int64) {
			t.Helper()
			got, err := d.Resolve(t.Context(), "a.example")
			if err != nil || len(got) != 1 || got[0].As4()[3] != last || r.calls.Load() != calls {
				t.Errorf("got %v %v with %d calls, want %d, %d", got, err, r.calls.Load(), last, calls)
			}
		}
		want(1, 1)
		got, _ := d.Resolve(t.Context(), "a.example")
		got[0] = netip.IPv4Unspecified() // the caller's own copy
		want(1, 1)
		time.Sleep(cacheFound - 10*time.Millisecond)
		want(1, 1)
		time.Sleep(20 * time.Millisecond)
		want(2, 2)

		r.err = errors.New("out of order\nreally")
		for range 3 {
			if _, err := d.Resolve(t.Context(), "b.example"); err == nil || err.Error() != `b.example: the resolver failed: out of order\nreally` ||
				r.calls.Load() != 3 {
				t.Errorf("%v with %d calls", err, r.calls.Load())
			}
		}
		r.err = nil
		time.Sleep(cacheNotFound + time.Millisecond)
		if _, err := d.Resolve(t.Context(), "b.example"); err != nil {
			t.Error(err)
		}
	})
}

// TestOneAsks: concurrent look-ups of one name cost one question per type of address, and a caller that gives up
// does not cancel the others.
func TestOneAsks(t *testing.T) {
	z := newZone(t, map[string]string{"a.example.": "198.51.100.1"})
	z.answers.Lock()
	d := z.dialer(t)
	first, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := d.Resolve(first, "a.example"); !errors.Is(err, context.Canceled) {
			t.Errorf("who left got %v", err)
		}
	})
	hosttest.Until(t, "the name is asked for", func() bool { return z.questions.Load() > 0 })
	var asking atomic.Int64
	for range 100 {
		all.Go(func() {
			asking.Add(1)
			if got, err := d.Resolve(t.Context(), "a.example"); err != nil || !sameSet(got, "198.51.100.1") {
				t.Errorf("got %v %v", got, err)
			}
		})
	}
	hosttest.Until(t, "all ask", func() bool { return asking.Load() == 100 })
	leave()
	z.answers.Unlock()
	all.Wait()
	if n := z.questions.Load(); n > 8 {
		t.Errorf("%d questions", n)
	}
}

// TestNeverAnswers: no caller waits longer than the resolver's timeout.
func TestNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &answers{take: time.Hour}
		d := &Dialer{Resolver: r}
		start := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if _, err := d.Dial(t.Context(), "a.example", 443); err == nil || err.Error() != "a.example: the resolver did not answer" {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(start); took != resolveTimeout {
			t.Errorf("%v", took)
		}
	})
}

// Resolve is resolve for a name in any spelling, like in Dial.
func (d *Dialer) Resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	host, err := canonical(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quote(name), err)
	}
	return d.resolve(ctx, host)
}
