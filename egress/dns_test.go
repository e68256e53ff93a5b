package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// nameServer is a namer on real sockets.
type nameServer struct {
	dnsServer
	udp, tcp string // addresses

	mu        sync.Mutex
	decisions []Decision
}

// newNamer returns a namer without sockets.
func newNamer(t testing.TB) *nameServer {
	p := policy(t, []string{"example.com", "*.example.org", "db.example.com:5432", "intranet", "xn--bcher-kva.example"}, nil)
	s := &nameServer{}
	s.dnsServer = dnsServer{
		decide: func(_ context.Context, name string, port int) Decision {
			d := p.Decide(name, 443)
			if !d.Allowed {
				d = p.Decide(name, 5432)
			}
			d.Port = port
			return d
		},
		decided: func(_ context.Context, d Decision) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.decisions = append(s.decisions, d)
		},
		addresses: &addressMap{},
	}
	return s
}

func serveNames(t testing.TB) *nameServer {
	t.Helper()
	s := newNamer(t)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var loops sync.WaitGroup
	loops.Go(func() { s.serveUDP(t.Context(), udp) })
	loops.Go(func() { s.serveTCP(t.Context(), tcp) })
	t.Cleanup(func() {
		_, _ = udp.Close(), tcp.Close()
		loops.Wait()
	})
	s.udp, s.tcp = udp.LocalAddr().String(), tcp.Addr().String()
	return s
}

// takeDecisions returns the decisions since the last call.
func (s *nameServer) takeDecisions() []Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.decisions
	s.decisions = nil
	return d
}

// exchange sends a message by UDP and returns the answer.
func (s *nameServer) exchange(t testing.TB, message []byte) []byte {
	t.Helper()
	conn := dialNames(t, "udp", s.udp)
	defer conn.Close()
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, maxMessage)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

func dialNames(t testing.TB, network, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// askStream sends messages in one write on a TCP connection, and reads as many answers.
func askStream(t testing.TB, conn net.Conn, messages ...[]byte) (answers [][]byte) {
	t.Helper()
	var all []byte
	for _, m := range messages {
		all = append(binary.BigEndian.AppendUint16(all, uint16(len(m))), m...)
	}
	if _, err := conn.Write(all); err != nil {
		t.Fatal(err)
	}
	for range messages {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, answer); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, answer)
	}
	return answers
}

// wire returns a query for a name of these labels, which may contain any bytes.
func wire(id uint16, t dnsmessage.Type, labels ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired, one question
	for _, label := range labels {
		b = append(append(b, byte(len(label))), label...)
	}
	b = append(b, 0)
	return append(binary.BigEndian.AppendUint16(b, uint16(t)), 0, 1)
}

// withOPT adds an empty OPT record to a query without additional records.
func withOPT(message []byte, size uint16) []byte {
	message = append(bytes.Clone(message), 0, 0, 41)
	message = binary.BigEndian.AppendUint16(message, size)
	message[11]++
	return append(message, 0, 0, 0, 0, 0, 0)
}

func splitName(name string) []string {
	if name == "" {
		return nil
	}
	return strings.Split(name, ".")
}

// records formats records briefly.
func records(all []dnsmessage.Resource) (text []string) {
	for _, r := range all {
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			text = append(text, fmt.Sprintf("A %v %d", netip.AddrFrom4(body.A), r.Header.TTL))
		case *dnsmessage.AAAAResource:
			text = append(text, fmt.Sprintf("AAAA %v %d", netip.AddrFrom16(body.AAAA), r.Header.TTL))
		case *dnsmessage.PTRResource:
			text = append(text, fmt.Sprintf("PTR %v %d", body.PTR, r.Header.TTL))
		default:
			text = append(text, r.GoString())
		}
	}
	return text
}

const (
	typeA, typeAAAA, typePTR = dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR

	noError = dnsmessage.RCodeSuccess
	noName  = dnsmessage.RCodeNameError
)

func TestNames(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 60)+".", 3) + strings.Repeat("b", 58) + ".example.org" // 253 bytes
	tests := []struct {
		name    string
		ask     string
		kind    dnsmessage.Type
		rcode   dnsmessage.RCode
		answers []string
		decided string // the name, with a ! before it if refused; "" for no decision
	}{
		{"allowed", "example.com", typeA, noError, []string{"A 127.64.0.1 60"}, "example.com"},
		{"again", "example.com", typeA, noError, []string{"A 127.64.0.1 60"}, "example.com"},
		{"mixed case is the same name", "eXaMPLe.cOM", typeA, noError, []string{"A 127.64.0.1 60"}, "example.com"},
		{"below a wildcard", "a.b.example.org", typeA, noError, []string{"A 127.64.0.2 60"}, "a.b.example.org"},
		{"on another port", "db.example.com", typeA, noError, []string{"A 127.64.0.3 60"}, "db.example.com"},
		{"single label", "intranet", typeA, noError, []string{"A 127.64.0.4 60"}, "intranet"},
		{"international", "XN--bcher-KVA.example", typeA, noError, []string{"A 127.64.0.5 60"}, "xn--bcher-kva.example"},
		{"longest", long, typeA, noError, []string{"A 127.64.0.6 60"}, long},
		{"any type", "example.com", dnsmessage.TypeALL, noError, []string{"A 127.64.0.1 60"}, "example.com"},
		{"AAAA", "example.com", typeAAAA, noError, nil, "example.com"},
		{"HTTPS", "example.com", dnsmessage.TypeHTTPS, noError, nil, "example.com"},
		{"SVCB", "example.com", dnsmessage.TypeSVCB, noError, nil, "example.com"},
		{"TXT", "example.com", dnsmessage.TypeTXT, noError, nil, "example.com"},
		{"MX", "example.com", dnsmessage.TypeMX, noError, nil, "example.com"},
		{"SRV", "_ssh._tcp.a.example.org", dnsmessage.TypeSRV, noError, nil, "_ssh._tcp.a.example.org"},
		{"NS", "example.com", dnsmessage.TypeNS, noError, nil, "example.com"},
		{"SOA", "example.com", dnsmessage.TypeSOA, noError, nil, "example.com"},
		{"AXFR", "example.com", dnsmessage.TypeAXFR, noError, nil, "example.com"},
		{"PTR of a name", "example.com", typePTR, noError, nil, "example.com"},
		{"unknown type", "example.com", 65280, noError, nil, "example.com"},
		{"root", "", dnsmessage.TypeNS, noError, nil, ""},

		{"refused", "evil.test", typeA, noName, nil, "!evil.test"},
		{"refused in mixed case", "EvIl.tEsT", typeA, noName, nil, "!evil.test"},
		{"refused AAAA", "evil.test", typeAAAA, noName, nil, "!evil.test"},
		{"refused TXT", "evil.test", dnsmessage.TypeTXT, noName, nil, "!evil.test"},
		{"refused single label", "wpad", typeA, noName, nil, "!wpad"},
		{"refused search list", "example.com.corp.internal", typeA, noName, nil, "!example.com.corp.internal"},
		{"above a wildcard", "example.org", typeA, noName, nil, "!example.org"},
		{"below an exact name", "www.example.com", typeA, noName, nil, "!www.example.com"},
		{"an address", "169.254.169.254", typeA, noName, nil, `!"169.254.169.254"`},
		{"longest, refused", long[:len(long)-1] + "x", typeA, noName, nil, "!" + long[:len(long)-1] + "x"},

		{"localhost", "localhost", typeA, noError, []string{"A 127.0.0.1 60"}, ""},
		{"localhost AAAA", "localhost", typeAAAA, noError, []string{"AAAA ::1 60"}, ""},
		{"localhost, any type", "LocalHost", dnsmessage.TypeALL, noError, []string{"A 127.0.0.1 60", "AAAA ::1 60"}, ""},
		{"localhost TXT", "localhost", dnsmessage.TypeTXT, noError, nil, ""},
		{"below localhost", "my.App.localhost", typeA, noError, []string{"A 127.0.0.1 60"}, ""},
		{"not below localhost", "mylocalhost", typeA, noName, nil, "!mylocalhost"},
		{"below something else", "localhost.evil.test", typeA, noName, nil, "!localhost.evil.test"},
		{"host name", "sandbox", typeA, noError, []string{"A 127.0.0.1 60"}, ""},
		{"host name AAAA", "sandbox", typeAAAA, noError, nil, ""},
		{"below the host name", "a.sandbox", typeA, noName, nil, "!a.sandbox"},

		{"reverse", "2.0.64.127.in-addr.arpa", typePTR, noError, []string{"PTR a.b.example.org. 60"}, ""},
		{"reverse, mixed case", "1.0.64.127.IN-Addr.arpa", typePTR, noError, []string{"PTR example.com. 60"}, ""},
		{"reverse, longest", "6.0.64.127.in-addr.arpa", typePTR, noError, []string{"PTR " + long + ". 60"}, ""},
		{"reverse, another type", "1.0.64.127.in-addr.arpa", typeA, noError, nil, ""},
		{"reverse, not given yet", "99.0.64.127.in-addr.arpa", typePTR, noName, nil, ""},
		{"reverse localhost", "1.0.0.127.in-addr.arpa", typePTR, noError, []string{"PTR localhost. 60"}, ""},
		{"reverse localhost of IPv6", "1" + strings.Repeat(".0", 31) + ".ip6.arpa", typePTR, noError, []string{"PTR localhost. 60"}, ""},
		{"reverse, others", "8.8.8.8.in-addr.arpa", typePTR, noName, nil, ""},
		{"reverse, other IPv6", "2" + strings.Repeat(".0", 31) + ".ip6.arpa", typePTR, noName, nil, ""},
		{"reverse, too short", "64.127.in-addr.arpa", typePTR, noName, nil, ""},
		{"reverse, too long", "9.1.0.64.127.in-addr.arpa", typePTR, noName, nil, ""},
		{"reverse, zeros", "01.0.64.127.in-addr.arpa", typePTR, noName, nil, ""},
		{"reverse, payload", "secret.in-addr.arpa", typePTR, noName, nil, ""},
		{"reverse, zone", "in-addr.arpa", dnsmessage.TypeSOA, noName, nil, ""},
		{"not reverse", "1.0.64.127.in-addr.arpa.evil.test", typePTR, noName, nil, "!1.0.64.127.in-addr.arpa.evil.test"},
	}
	s := serveNames(t)
	conn := dialNames(t, "tcp", s.tcp)
	defer conn.Close()
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bare := wire(uint16(i+1), tt.kind, splitName(tt.ask)...)
			edns := withOPT(bare, 1232)
			streamed := askStream(t, conn, bare, edns)
			for _, try := range []struct{ question, answer []byte }{
				{bare, s.exchange(t, bare)}, {edns, s.exchange(t, edns)}, {bare, streamed[0]}, {edns, streamed[1]},
			} {
				m := wellFormed(t, try.question, try.answer)
				if m.RCode != tt.rcode || !slices.Equal(records(m.Answers), tt.answers) {
					t.Errorf("got %v %q, want %v %q", m.RCode, records(m.Answers), tt.rcode, tt.answers)
				}
			}
			var want []string
			if tt.decided != "" {
				want = slices.Repeat([]string{tt.decided}, 4)
			}
			var got []string
			for _, d := range s.takeDecisions() {
				if d.Port != 0 || d.Reason == "" {
					t.Errorf("%+v", d)
				}
				if !d.Allowed {
					d.Name = "!" + d.Name
				}
				got = append(got, d.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("decided %q, want %q", got, want)
			}
		})
	}
}

// wellFormed checks the properties of each answer to a valid query.
func wellFormed(t testing.TB, question, answer []byte) dnsmessage.Message {
	t.Helper()
	var q, m dnsmessage.Message
	if err := q.Unpack(question); err != nil {
		t.Fatal(err)
	}
	if err := m.Unpack(answer); err != nil {
		t.Fatalf("%v in %x", err, answer)
	}
	if m.ID != q.ID || !m.Response || !m.Authoritative || !m.RecursionAvailable || m.Truncated || m.RecursionDesired != q.RecursionDesired {
		t.Errorf("header %+v", m.Header)
	}
	end := 12 + int(q.Questions[0].Name.Length) + 1 + 4
	if len(q.Questions[0].Name.String()) == 1 { // the root
		end--
	}
	if !bytes.Equal(answer[12:end], question[12:end]) {
		t.Errorf("question %q, asked %q", answer[12:end], question[12:end])
	}
	if len(m.Additionals) != len(q.Additionals) {
		t.Errorf("%d additional records for %d", len(m.Additionals), len(q.Additionals))
	}
	for _, r := range m.Answers {
		if r.Header.Name != q.Questions[0].Name {
			t.Errorf("an answer for %v", r.Header.Name)
		}
	}
	if wantSOA := len(m.Answers) == 0; wantSOA != (len(m.Authorities) == 1) {
		t.Errorf("authority %v", m.Authorities)
	} else if wantSOA {
		soa, ttl := m.Authorities[0], map[dnsmessage.RCode]uint32{noError: 60, noName: 0}[m.RCode]
		if soa.Header.TTL != ttl || soa.Body.(*dnsmessage.SOAResource).MinTTL != ttl {
			t.Errorf("%v may be kept for %+v", m.RCode, soa)
		}
	}
	return m
}

// extended returns the extended error of an answer.
func extended(m dnsmessage.Message) (code uint16, text string) {
	for _, r := range m.Additionals {
		if opt, ok := r.Body.(*dnsmessage.OPTResource); ok {
			for _, o := range opt.Options {
				if o.Code == 15 && len(o.Data) > 2 {
					return binary.BigEndian.Uint16(o.Data), string(o.Data[2:])
				}
			}
		}
	}
	return 0, ""
}

// TestReasons reads the reason of a refusal from the answer.
func TestReasons(t *testing.T) {
	s := serveNames(t)
	long := strings.Split(strings.Repeat(strings.Repeat("a", 60)+".", 4)+"evil.test", ".")
	for _, tt := range []struct {
		name    string
		message []byte
		code    uint16
		want    string
		size    int // bytes of text
	}{
		{"reason", withOPT(wire(1, typeA, "evil", "test"), 1232), 18, "evil.test is not among the allowed domains", 0},
		{"small size", withOPT(wire(1, typeA, "evil", "test"), 0), 18, "evil.test is not among the allowed domains", 0},
		{"no OPT", wire(1, typeA, "evil", "test"), 0, "", 0},
		{"allowed", withOPT(wire(1, typeAAAA, "example", "com"), 1232), 0, "", 0},
		{"reverse", withOPT(wire(1, typePTR, "8", "8", "8", "8", "in-addr", "arpa"), 1232), 0, "", 0},
		{"long name", withOPT(wire(1, typeA, long...), 1232), 18, "aaaa", maxReason},
		{"long name, small size", withOPT(wire(1, typeA, long...), 512), 0, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := s.exchange(t, tt.message)
			code, text := extended(wellFormed(t, tt.message, answer))
			if code != tt.code || !strings.Contains(text, tt.want) || tt.size > 0 && len(text) != tt.size {
				t.Errorf("got %d %q, want %d %q", code, text, tt.code, tt.want)
			}
			if tt.code == 0 && len(answer) > 512 {
				t.Errorf("%d bytes", len(answer))
			}
		})
	}
	unicode := newNamer(t)
	unicode.decide = func(context.Context, string, int) Decision {
		return Decision{Name: "evil.test", Reason: strings.Repeat("a", 199) + "ü"}
	}
	m := withOPT(wire(1, typeA, "evil", "test"), 1232)
	if _, text := extended(wellFormed(t, m, unicode.appendReply(t.Context(), nil, m, maxDatagram))); text != strings.Repeat("a", 199) {
		t.Errorf("a letter is cut: %q", text)
	}
}

// TestOddNames has names that must never match an allowed name.
func TestOddNames(t *testing.T) {
	s := serveNames(t)
	for _, tt := range []struct {
		rcode  dnsmessage.RCode
		labels []string
	}{
		{noName, []string{"example", "com\x00"}},
		{noName, []string{"example", "com", "\x00"}},
		{noName, []string{"example", "com\x00", "evil", "test"}},
		{noName, []string{"\x00example", "com"}},
		{noName, []string{"example", "com "}},
		{noName, []string{"example", "com\n"}},
		{noName, []string{"example\\", "com"}},
		{noName, []string{"example\\046com"}},
		{noName, []string{"a\\", "example", "org"}},
		{noName, []string{"\\097", "example", "org"}},
		{noName, []string{"*", "example", "org"}},
		{noName, []string{"a@b", "example", "org"}},
		{noName, []string{"a/", "example", "org"}},
		{noName, []string{"b\u00fccher", "example"}}, // IDNA would map it to an allowed name
		{noName, []string{"\uff45xample", "com"}},    // also: fullwidth
		{noName, []string{"example\u3002com"}},       // also: a dot
		{noName, []string{"exam\u00adple", "com"}},   // also: a soft hyphen
		{noName, []string{"\xc3\x9c", "example", "org"}},
		{noName, []string{"\xff", "example", "org"}},
		{noName, []string{"e\xe8ample", "com"}},
		{noName, []string{"EXAMPLE", "COM\x80"}},
		{dnsmessage.RCodeFormatError, []string{"example.com"}},
		{dnsmessage.RCodeFormatError, []string{"a.example", "org"}},
		{dnsmessage.RCodeFormatError, []string{".", "example", "org"}},
	} {
		answer := s.exchange(t, wire(7, typeA, tt.labels...))
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil || m.RCode != tt.rcode || len(m.Answers) > 0 || m.ID != 7 {
			t.Errorf("%q: %v, want %v: %v", tt.labels, m.RCode, tt.rcode, err)
		}
		for _, d := range s.takeDecisions() {
			showDecision(t, d)
			if d.Allowed {
				t.Errorf("%q is taken for %q", tt.labels, d.Name)
			}
		}
	}
	if len(s.addresses.names) > 0 {
		t.Errorf("addresses for %q", s.addresses.names)
	}
}

// change returns a copy of message with bytes changed: at, value, at, value ...
func change(message []byte, edits ...int) []byte {
	message = slices.Clone(message)
	for i := 0; i < len(edits); i += 2 {
		message[edits[i]] = byte(edits[i+1])
	}
	return message
}

// TestMessages has messages that are not a single question for a name's addresses.
func TestMessages(t *testing.T) {
	const formErr, notImp, refused = dnsmessage.RCodeFormatError, dnsmessage.RCodeNotImplemented, dnsmessage.RCodeRefused
	good := wire(0x1234, typeA, "example", "com")
	opt := withOPT(good, 1232)
	last := len(good) - 1
	pointer := append(slices.Clone(good[:12]), 0xc0, 12, 0, 1, 0, 1)
	intoHeader := append(change(good[:12], 0, 1, 1, 'a', 2, 0), 0xc0, 0, 0, 1, 0, 1) // the id is the label a
	tests := []struct {
		name    string
		message []byte
		rcode   int // -1 for no answer
	}{
		{"good", good, 0},
		{"bytes behind it", append(slices.Clone(good), 1, 2, 3), 0},
		{"empty", nil, -1},
		{"short", good[:11], -1},
		{"an answer", change(good, 2, 0x81), -1},
		{"an answer, refused", change(good, 2, 0x80, 3, 5), -1},
		{"only a header", good[:12], int(formErr)},
		{"no question", change(good, 5, 0), int(formErr)},
		{"two questions", append(change(good, 5, 2), good[12:]...), int(formErr)},
		{"one question of two", change(good, 5, 2), int(formErr)},
		{"65535 questions", change(good, 4, 255, 5, 255), int(formErr)},
		{"cut in the name", good[:16], int(formErr)},
		{"cut in the class", good[:last], int(formErr)},
		{"no record where one is said", change(good, 11, 1), int(formErr)},
		{"no answer where one is said", change(good, 7, 1), int(formErr)},
		{"reserved label", change(good, 12, 0x40), int(formErr)},
		{"pointer to itself", pointer, int(formErr)},
		{"pointer into the header", intoHeader, int(formErr)},
		{"two OPTs", append(change(opt, 11, 2), opt[len(good):]...), int(formErr)},
		{"cut OPT", opt[:len(opt)-1], int(formErr)},
		{"OPT shorter than it says", change(opt, len(opt)-1, 1), int(formErr)},
		{"EDNS version 1", change(opt, len(good)+6, 1), 16},
		{"class CHAOS", change(good, last, 3), int(refused)},
		{"any class", change(good, last, 255), int(refused)},
		{"inverse query", change(good, 2, 1<<3), int(notImp)},
		{"status", change(good, 2, 2<<3), int(notImp)},
		{"notify", change(good, 2, 4<<3), int(notImp)},
		{"update", change(good, 2, 5<<3), int(notImp)},
		{"opcode 15", change(good, 2, 15<<3), int(notImp)},
	}
	s := serveNames(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := dialNames(t, "udp", s.udp)
			defer conn.Close()
			sentinel := wire(0xffff, typeA, "example", "com")
			for _, m := range [][]byte{tt.message, sentinel} { // loopback UDP keeps the order
				if _, err := conn.Write(m); err != nil {
					t.Fatal(err)
				}
			}
			b := make([]byte, maxMessage)
			n, err := conn.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			var m dnsmessage.Message
			if err := m.Unpack(b[:n]); err != nil {
				t.Fatal(err)
			}
			if m.ID == 0xffff {
				if tt.rcode != -1 {
					t.Error("no answer")
				}
				return
			}
			rcode := m.RCode
			if len(m.Additionals) > 0 {
				rcode = m.Additionals[0].Header.ExtendedRCode(rcode)
			}
			if int(rcode) != tt.rcode || m.ID != binary.BigEndian.Uint16(tt.message) || !m.Response || byte(m.OpCode) != tt.message[2]>>3&15 {
				t.Errorf("got %v %+v, want %d", rcode, m.Header, tt.rcode)
			}
			if (len(m.Answers) > 0) != (tt.rcode == 0) {
				t.Errorf("answers %v", m.Answers)
			}
		})
	}
}

// TestGoResolver uses the resolver of Go programs: it accepts each first answer, and asks once.
func TestGoResolver(t *testing.T) {
	s := serveNames(t)
	for _, network := range []string{"udp", "tcp"} {
		t.Run(network, func(t *testing.T) {
			s.takeDecisions()
			r := net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network, map[string]string{"udp": s.udp, "tcp": s.tcp}[network])
			}}
			if got, err := r.LookupHost(t.Context(), "example.com."); err != nil || !slices.Equal(got, []string{"127.64.0.1"}) {
				t.Errorf("allowed: %v, %v", got, err)
			}
			got, err := r.LookupHost(t.Context(), "evil.test.")
			var dnsErr *net.DNSError
			if !errors.As(err, &dnsErr) || !dnsErr.IsNotFound || dnsErr.IsTemporary || dnsErr.IsTimeout {
				t.Errorf("refused: %v, %+v", got, err)
			}
			if got, err := r.LookupTXT(t.Context(), "example.com."); !errors.As(err, &dnsErr) || !dnsErr.IsNotFound {
				t.Errorf("TXT: %v, %v", got, err)
			}
			if got, err := r.LookupAddr(t.Context(), "127.64.0.1"); err != nil || !slices.Equal(got, []string{"example.com."}) {
				t.Errorf("reverse: %v, %v", got, err)
			}
			if d := s.takeDecisions(); len(d) != 5 { // A and AAAA of two names, and TXT
				t.Errorf("%d queries: %+v", len(d), d)
			}
		})
	}
}

// TestTunnel tries to send data out in names: no other resolver is asked.
func TestTunnel(t *testing.T) {
	machine := net.DefaultResolver
	defer func() { net.DefaultResolver = machine }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, address string) (net.Conn, error) {
		t.Errorf("%s %s was asked", network, address)
		return nil, errors.New("not here")
	}}
	s := serveNames(t)
	payload := strings.Repeat("0123456789abcdef", 3)
	for _, kind := range []dnsmessage.Type{typeA, typeAAAA, dnsmessage.TypeTXT, dnsmessage.TypeNS, dnsmessage.TypeCNAME, dnsmessage.TypeMX, 10,
		dnsmessage.TypeALL} {
		for _, name := range []string{"evil.test", "example.com.evil.test", "localhost.evil.test", "in-addr.arpa.evil.test", "in-addr.arpa"} {
			m := withOPT(wire(9, kind, splitName(payload+"."+name)...), 4096)
			if got := wellFormed(t, m, s.exchange(t, m)); got.RCode != noName || len(got.Answers) > 0 {
				t.Errorf("%v %s: %v %v", kind, name, got.RCode, records(got.Answers))
			}
		}
	}
	if len(s.addresses.names) > 0 {
		t.Errorf("addresses for %q", s.addresses.names)
	}
}

// TestFull allows more names than the map has addresses.
func TestFull(t *testing.T) {
	s := newNamer(t)
	for i := range maxNames {
		if _, err := s.addresses.address(fmt.Sprint(i, ".example.org")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		label   string
		rcode   dnsmessage.RCode
		allowed bool
	}{{"more", noName, false}, {"7", noError, true}} {
		m := withOPT(wire(1, typeA, tt.label, "example", "org"), 1232)
		got := wellFormed(t, m, s.appendReply(t.Context(), nil, m, maxDatagram))
		_, reason := extended(got)
		if d := s.takeDecisions(); got.RCode != tt.rcode || strings.Contains(reason, "65536 names") == tt.allowed || len(d) != 1 ||
			d[0].Allowed != tt.allowed {
			t.Errorf("%s: %v %q %+v", tt.label, got.RCode, reason, d)
		}
	}
}

// TestFlood asks for many refused names: none of them may be kept.
func TestFlood(t *testing.T) {
	s := newNamer(t)
	s.decided = func(context.Context, Decision) {}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, out := heap(), []byte(nil)
	for i := range hosttest.Rounds(40_000, 100_000) {
		out = s.appendReply(t.Context(), out[:0], wire(1, typeA, strings.Repeat("x", 50), fmt.Sprint(i), "evil", "test"), maxDatagram)
	}
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	runtime.KeepAlive(s)
}

func TestStream(t *testing.T) {
	s := serveNames(t)
	conn := dialNames(t, "tcp", s.tcp)
	defer conn.Close()
	var messages [][]byte
	for i := range 300 {
		messages = append(messages, wire(uint16(i), typeA, fmt.Sprint(i%7), "example", "org"))
	}
	messages = append(messages, append(withOPT(messages[0], 512), make([]byte, 65000)...)) // the padding is not part of the message
	for i, answer := range askStream(t, conn, messages...) {
		if m := wellFormed(t, messages[i], answer); len(m.Answers) != 1 {
			t.Errorf("%d: %v", i, m)
		}
	}
	// A message without an answer does not end the connection.
	if _, err := conn.Write([]byte{0, 0, 0, 3, 1, 2, 3, 0, 12, 0, 1, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, messages[3], askStream(t, conn, messages[3])[0])
}

// TestStreams opens more connections than the limit, and ends them from either side.
func TestStreams(t *testing.T) {
	s := newNamer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		s.serveTCP(t.Context(), l)
		close(done)
	}()
	m := wire(1, typeA, "example", "com")
	var conns []net.Conn
	for range maxStreams {
		conn := dialNames(t, "tcp", l.Addr().String())
		defer conn.Close()
		askStream(t, conn, m)
		conns = append(conns, conn)
	}
	more := dialNames(t, "tcp", l.Addr().String())
	defer more.Close()
	if n, err := more.Read(make([]byte, 1)); err == nil {
		t.Errorf("one more: read %d, %v", n, err)
	}
	askStream(t, conns[0], m)
	conns[0].Close()
	hosttest.Until(t, "a place that is free again is given", func() bool {
		again := dialNames(t, "tcp", l.Addr().String())
		defer again.Close()
		_, _ = again.Write(append([]byte{0, byte(len(m))}, m...))
		n, _ := again.Read(make([]byte, 1))
		return n == 1
	})
	l.Close()
	<-done // and its connections have ended
	if _, err := conns[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection is not ended: %v", err)
	}
}

// TestSlow has clients that send nothing, stop in the middle, or do not read.
func TestSlow(t *testing.T) {
	good := wire(1, typeA, "example", "com")
	for name, sent := range map[string][]byte{
		"silent":           nil,
		"stops":            {0, byte(len(good)), 1, 2, 3},
		"does not read":    append([]byte{0, byte(len(good))}, good...),
		"sends no answers": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newNamer(t)
				client, server := net.Pipe()
				start := time.Now()
				go func() { _, _ = client.Write(sent) }()
				s.serveConn(t.Context(), server)
				if took := time.Since(start); took != streamIdle {
					t.Errorf("ended after %v, want %v", took, streamIdle)
				}
			})
		})
	}
}

// FuzzReply checks the properties of answers to any bytes.
func FuzzReply(f *testing.F) {
	good := wire(1, typeA, "example", "com")
	for _, m := range [][]byte{
		good, withOPT(good, 1232), withOPT(good, 0), change(good, 2, 0x80), change(good, 2, 0x28), good[:12], good[:20], {},
		wire(2, dnsmessage.TypeALL, "a", "EXAMPLE", "org"), wire(2, typeA, "com\x00"), wire(3, typeA, "b\u00fccher", "example"),
		withOPT(wire(4, typeA, "evil", "test"), 512), wire(5, typePTR, "1", "0", "64", "127", "in-addr", "arpa"), wire(6, typeAAAA, "localhost"),
		wire(7, typeA),
		withOPT(wire(4, typeA, splitName(strings.Repeat(strings.Repeat("a", 60)+".", 4)+"evil")...), 600),
		wire(1, typeA, "xn--bcher-kva", "example"),
	} {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		s := newNamer(t)
		answer := s.appendReply(t.Context(), nil, message, maxDatagram)
		if len(message) < 12 || message[2]&0x80 != 0 {
			if answer != nil {
				t.Fatalf("an answer to an invalid query: %x", answer)
			}
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil {
			t.Fatalf("%v in %x", err, answer)
		}
		if !m.Response || !bytes.Equal(answer[:2], message[:2]) || (answer[2]^message[2])&0x79 != 0 || m.Truncated {
			t.Errorf("header %x of %x", answer[:4], message[:4])
		}
		switch len(m.Questions) {
		case 0:
			if m.RCode != dnsmessage.RCodeFormatError && m.RCode != dnsmessage.RCodeNotImplemented {
				t.Errorf("%v without the question", m.RCode)
			}
		default:
			end := 12 + len(answer[12:]) - len(afterName(answer[12:])) + 4
			if end > len(message) || !bytes.Equal(answer[12:end], message[12:end]) || len(m.Questions) != 1 {
				t.Errorf("question %q, asked %q", answer[12:], message[12:])
			}
		}
		if maxSize := max(512, ednsSizeOf(message)); len(answer) > maxSize {
			t.Errorf("%d bytes, at most %d", len(answer), maxSize)
		}
		if !bytes.Equal(s.appendReply(t.Context(), []byte{1, 2}, message, maxMessage)[2:14], answer[:12]) {
			t.Error("TCP differs from UDP")
		}
		for _, d := range s.takeDecisions() {
			showDecision(t, d)
			asked := strings.TrimSuffix(m.Questions[0].Name.String(), ".")
			if d.Allowed && (!isASCII(asked) || d.Name != strings.ToLower(asked)) {
				t.Errorf("%q is taken for %q", asked, d.Name)
			}
			if d.Allowed != (m.RCode == noError) {
				t.Errorf("%v for %+v", m.RCode, d)
			}
		}
	})
}

// afterName returns the bytes after an uncompressed name.
func afterName(b []byte) []byte {
	for b[0] != 0 {
		b = b[1+int(b[0]):]
	}
	return b[1:]
}

// ednsSizeOf returns the size in the last OPT record of a message, or 0.
func ednsSizeOf(message []byte) (size int) {
	var p dnsmessage.Parser
	if _, err := p.Start(message); err != nil || p.SkipAllQuestions() != nil || p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return 0
	}
	for {
		h, err := p.AdditionalHeader()
		if err != nil || p.SkipAdditional() != nil {
			return size
		}
		if h.Type == dnsmessage.TypeOPT {
			size = int(h.Class)
		}
	}
}

func BenchmarkReply(b *testing.B) {
	for _, name := range []string{"example.com", "evil.test"} {
		b.Run(name, func(b *testing.B) {
			s := newNamer(b)
			s.decided = func(context.Context, Decision) {}
			m := withOPT(wire(1, typeA, splitName(name)...), 1232)
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				out = s.appendReply(b.Context(), out[:0], m, maxDatagram)
			}
		})
	}
}

func BenchmarkQuery(b *testing.B) {
	s := serveNames(b)
	conn, err := net.Dial("udp", s.udp)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	m, in := withOPT(wire(1, typeA, "example", "com"), 1232), make([]byte, 1232)
	for b.Loop() {
		_, _ = conn.Write(m)
		if _, err := conn.Read(in); err != nil {
			b.Fatal(err)
		}
	}
}
