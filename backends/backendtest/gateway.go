//go:build linux

package backendtest

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// testGateway: look-ups and connections by name reach the host, and there is no other route out.
func testGateway(t *testing.T, b *bench) {
	spec := b.spec("python")
	spec.Gateway = []int{80, 443, 5432}
	spec.Trust = []byte("-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n")
	if !b.promises(backends.LayerNet) {
		if b.startRefused(t, spec) == nil {
			t.Error("a sandbox without a network of its own got a gateway")
		}
		return
	}
	s := b.start(t, spec)
	g := s.Gateway()
	if len(g.Ports) != len(spec.Gateway) || g.DNS == nil || g.DNSStream == nil {
		t.Fatalf("got %d ports, DNS %v and %v", len(g.Ports), g.DNS, g.DNSStream)
	}
	go serveDNS(g.DNS)
	for i, listener := range g.Ports {
		go serveAddresses(listener, spec.Gateway[i])
	}
	const code = `
import errno, socket, ssl, sys
def ask(host, port, family=socket.AF_INET, flags=0):
    try:
        at = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, flags)[0][4]
        with socket.create_connection(at[:2], timeout=60) as c:
            return c.makefile().readline().strip()
    except OSError as e:
        return type(e).__name__ + " " + errno.errorcode.get(e.errno, str(e.errno))
print(ask("name.test", 80))
print(ask("name.test", 443, socket.AF_UNSPEC, socket.AI_ADDRCONFIG))
print(ask("name.test", 5432, socket.AF_INET, socket.AI_ADDRCONFIG))
print(ask("127.9.9.9", 443))
print(ask("name.test", 8081))
print(ask("203.0.113.1", 443))
print(ask("2001:db8::1", 443, socket.AF_INET6))
own = socket.create_server(("127.0.0.1", 8000))
print("own", socket.create_connection(("localhost", 8000)).fileno() > 0)
for port in (53, 443):
    try:
        socket.create_server(("127.0.0.1", port))
        print("taken over")
    except OSError as e:
        print("not taken", port)
bundles = [ssl.get_default_verify_paths().openssl_cafile, "/etc/ssl/certs/ca-certificates.crt", sys.argv[1]]
def read(path):
    try: return open(path).read()
    except FileNotFoundError: return ""
texts = [t for t in map(read, bundles) if t]
print("trusted", len(texts) > 0 and all("ours" in t for t in texts), len(set(texts)))
try:
    open(sys.argv[1], "a")
    print("writable")
except OSError: pass
`
	want := strings.Join([]string{
		"127.64.0.1 on 80", "127.64.0.1 on 443", "127.64.0.1 on 5432", "127.9.9.9 on 443",
		"ConnectionRefusedError ECONNREFUSED", "OSError ENETUNREACH", "OSError ENETUNREACH",
		"own True", "not taken 53", "not taken 443", "trusted True 1", "",
	}, "\n")
	o := mustExec(t, s, "python", "-c", code, backends.TrustFile).mustSucceed(t)
	if b.o.OneAddress { // the kernel then has another error for an unreachable IPv6 address
		want = strings.Replace(want, "127.64.0.1 on 5432", "gaierror -2", 1)
		o.Stdout = strings.Replace(o.Stdout, "EADDRNOTAVAIL", "ENETUNREACH", 1)
	}
	if b.o.Interfaces { // packets are dropped, not refused; and the image's own certificate files are unchanged
		want = strings.Replace(want, "OSError ENETUNREACH", "TimeoutError None", 1)
		want = strings.Replace(want, "trusted True 1", "trusted False 2", 1)
	}
	if o.Stdout != want {
		t.Errorf("got %q, want %q; %s", o.Stdout, want, o.Stderr)
	}
	for _, l := range o.Contained.Layers {
		if l.Name == backends.LayerNet && !strings.Contains(l.Detail, "5432") {
			t.Errorf("the result does not say that there are ports: %+v", l)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := g.Ports[0].Accept(); err == nil {
		t.Error("a listener outlived its sandbox")
	}
	if _, _, err := g.DNS.ReadFrom(make([]byte, 10)); err == nil {
		t.Error("DNS outlived its sandbox")
	}
	for _, ports := range [][]int{{0}, {70000}, {53}, {80, 80}, make([]int, 1000)} {
		spec.Gateway = ports
		if b.startRefused(t, spec) == nil {
			t.Errorf("ports %.20v were taken", ports)
		}
	}
}

// serveAddresses sends each connection the address that it was made to.
func serveAddresses(listener net.Listener, port int) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		host, _, _ := net.SplitHostPort(c.LocalAddr().String())
		fmt.Fprintf(c, "%s on %d\n", host, port)
		c.Close()
	}
}

// serveDNS answers every name with the address 127.64.0.1 only.
func serveDNS(c net.PacketConn) {
	buf := make([]byte, 1<<10)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(bytes.Clone(buf[:n])) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		answer := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
		if q.Type == dnsmessage.TypeA {
			answer.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 60},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 64, 0, 1}},
			}}
		}
		if packed, err := answer.Pack(); err == nil {
			c.WriteTo(packed, from)
		}
	}
}
