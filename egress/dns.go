package egress

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	maxMessage  = 1<<16 - 1        // bytes: the maximum of the length prefix on TCP
	maxQuery    = 4 << 10          // bytes of a UDP query: a thousand sandboxes may wait for one
	maxDatagram = 512              // bytes of a UDP answer without EDNS, RFC 1035 section 4.2.1
	ednsSize    = 1232             // bytes of the UDP size that answers announce, https://dnsflagday.net/2020
	maxStreams  = 32               // TCP connections at once; nearly all queries come by UDP
	streamIdle  = 10 * time.Second // for one query and its answer on TCP, RFC 7766 section 6.2.3
	nameTTL     = 60               // seconds; the address never changes, but the policy may
	maxReason   = 200              // bytes of a reason in an answer
)

// dnsServer is the only DNS server of a sandbox. It answers from the policy and its address map, and forwards nothing,
// so that queries can't leak data from this machine.
//
// A refused name does not exist (NXDOMAIN), because every client treats that as final. REFUSED would be more precise,
// but musl ignores it and waits for its timeout, and glibc, c-ares and Go retry and then report a temporary failure. An
// extended error has the reason.
//
// An allowed name has only an address (A): the answer to all other types is empty (NODATA), and never NXDOMAIN. musl
// queries A and AAAA at once, and one NXDOMAIN makes it drop the address of the other; glibc, c-ares and Go combine
// both answers, without a retry. All of them need both answers to continue.
type dnsServer struct {
	// decide returns whether any port of name is allowed; port is 0. It must not block.
	decide func(ctx context.Context, name string, port int) Decision
	// decided is called for each decision, possibly concurrently.
	decided   func(ctx context.Context, d Decision)
	addresses *addressMap
}

// serveUDP answers on UDP until conn is closed.
func (n *dnsServer) serveUDP(ctx context.Context, conn net.PacketConn) {
	in := make([]byte, maxQuery)
	var out []byte
	for {
		size, from, err := conn.ReadFrom(in)
		if retryAfter(ctx, err) {
			return
		}
		if err != nil {
			continue
		}
		if out = n.appendReply(ctx, out[:0], in[:size], maxDatagram); len(out) > 0 {
			_, _ = conn.WriteTo(out, from) // a client without an answer retries
		}
	}
}

// serveTCP answers on TCP until l is closed. Then it closes its connections and waits for them.
func (n *dnsServer) serveTCP(ctx context.Context, l net.Listener) {
	var open sync.WaitGroup
	defer open.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	places := make(chan struct{}, maxStreams)
	for {
		conn, err := l.Accept()
		if retryAfter(ctx, err) {
			return
		}
		if err != nil {
			continue
		}
		select {
		case places <- struct{}{}:
			open.Go(func() {
				n.serveConn(ctx, conn)
				<-places
			})
		default:
			_ = conn.Close() // don't wait for a slot of a possibly idle connection
		}
	}
}

// retryAfter waits a moment after a temporary error, such as a lack of memory or descriptors, so that a retry loop does
// not spin. It returns true, without waiting, if err means that the socket is closed.
func retryAfter(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return true
	}
	time.Sleep(10 * time.Millisecond)
	return false
}

// serveConn answers the queries of a TCP connection in order, and closes it.
func (n *dnsServer) serveConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r := bufio.NewReader(conn)
	var in, out []byte
	for {
		if conn.SetDeadline(time.Now().Add(streamIdle)) != nil {
			return
		}
		var length [2]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return
		}
		size := int(binary.BigEndian.Uint16(length[:]))
		in = slices.Grow(in[:0], size)[:size]
		if _, err := io.ReadFull(r, in); err != nil {
			return
		}
		out = n.appendReply(ctx, append(out[:0], 0, 0), in, maxMessage)
		if len(out) == 0 {
			continue
		}
		binary.BigEndian.PutUint16(out, uint16(len(out)-2))
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

// appendReply appends the answer to a message to out, in at most maxSize bytes or the size that the message itself
// allows. It returns nil for messages that must not be answered: those too short for a query, and answers, which could
// make two servers answer each other forever.
func (n *dnsServer) appendReply(ctx context.Context, out, message []byte, maxSize int) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || h.Response {
		return nil
	}
	q := query{header: h}
	a := answer{rcode: dnsmessage.RCodeNotImplemented}
	if h.OpCode == 0 {
		if !q.parse(&p, message) {
			a.rcode = dnsmessage.RCodeFormatError
		} else {
			a = n.answerName(ctx, q)
		}
	}
	full := a.pack(out, q)
	if a.reason != "" && len(full)-len(out) > max(maxSize, q.size) {
		a.reason = "" // the rest fits into 512 bytes for any name
		full = a.pack(out, q)
	}
	return full
}

// answerName answers a query for a name.
func (n *dnsServer) answerName(ctx context.Context, q query) answer {
	name := nameText(q.question.Name)
	switch {
	case q.version != 0:
		return answer{rcode: badVersion}
	case q.question.Class != dnsmessage.ClassINET:
		return answer{rcode: dnsmessage.RCodeRefused}
	case name == "": // the root exists, without records
		return answer{}
	case name == "localhost", strings.HasSuffix(name, ".localhost"): // RFC 6761 section 6.3
		return q.answerWith(loopback4, loopback6)
	case name == "sandbox": // the sandbox's host name, which programs look up for their own address
		return q.answerWith(loopback4)
	case isSubdomain(name, "in-addr.arpa"), isSubdomain(name, "ip6.arpa"):
		return n.answerReverse(q, name)
	}
	d := n.decide(ctx, name, 0)
	var address netip.Addr
	if d.Allowed && q.asksFor(dnsmessage.TypeA) {
		var err error
		if address, err = n.addresses.address(d.Name); err != nil {
			d.Allowed, d.Reason = false, err.Error()
		}
	}
	n.decided(ctx, d)
	if !d.Allowed {
		return answer{rcode: dnsmessage.RCodeNameError, reason: d.Reason}
	}
	return q.answerWith(address)
}

// answerReverse answers a PTR query. Programs send such queries by themselves, so they are not recorded as decisions.
func (n *dnsServer) answerReverse(q query, name string) answer {
	host := "localhost"
	if name != loopback6Name {
		labels := strings.Split(strings.TrimSuffix(name, ".in-addr.arpa"), ".")
		slices.Reverse(labels)
		address, err := netip.ParseAddr(strings.Join(labels, "."))
		known := err == nil && address == loopback4
		if err == nil && !known {
			host, known = n.addresses.name(address)
		}
		if !known {
			return answer{rcode: dnsmessage.RCodeNameError}
		}
	}
	target, err := dnsmessage.NewName(host + ".")
	if err != nil || !q.asksFor(dnsmessage.TypePTR) {
		return answer{}
	}
	return answer{records: []dnsmessage.ResourceBody{&dnsmessage.PTRResource{PTR: target}}}
}

var (
	loopback4     = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	loopback6     = netip.IPv6Loopback()
	loopback6Name = "1." + strings.Repeat("0.", 31) + "ip6.arpa"
)

func isSubdomain(name, parent string) bool {
	return name == parent || strings.HasSuffix(name, "."+parent)
}

// nameText returns the text form of a name, in lower case (RFC 4343) and without the final dot. Bytes other than
// printable ASCII, and backslashes, are escaped, which no policy allows: so Unicode in a query is never mapped to
// another name, and a NUL does not end it. A dot inside a label needs no escape, since dnsmessage refuses it.
func nameText(name dnsmessage.Name) string {
	quoted := strconv.QuoteToASCII(strings.TrimSuffix(name.String(), "."))
	return strings.ToLower(quoted[1 : len(quoted)-1])
}
