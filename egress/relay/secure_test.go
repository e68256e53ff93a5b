package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

func bothSides(t *testing.T, l *leased, h http.HandlerFunc, f func(t *testing.T, g *rig, major int)) {
	for _, two := range []bool{false, true} {
		g := newRig(t, setup{server: secureServer(t, two, h), config: l.config(), secure: true})
		t.Run(map[bool]string{false: "to HTTP 1", true: "to HTTP 2"}[two], func(t *testing.T) {
			protocols(t, func(t *testing.T, major int) { f(t, g, major) })
		})
	}
}

func TestSecure(t *testing.T) {
	bothSides(t, lease(nil), echo, func(t *testing.T, g *rig, major int) {
		res, body := g.send(major, g.request("POST", "/x", strings.NewReader("text")))
		if res.StatusCode != 200 || res.ProtoMajor != major || !strings.HasPrefix(body, "POST /x\nHost: "+host+"\n") {
			t.Errorf("%s %s %q", res.Proto, res.Status, body)
		}
	})
}

func TestSecureConversation(t *testing.T) {
	bothSides(t, lease(nil), converse, speak)
}

func TestSecureEvents(t *testing.T) {
	s := newStream()
	bothSides(t, lease(nil), s.serve, s.read)
}

func TestAuthority(t *testing.T) {
	var nobody *Relay
	if nobody.Authority() != nil || nobody.TerminatesTLS(host, 443) {
		t.Error("a nil relay opens TLS")
	}
	none, err := New(Config{})
	if err != nil || none.Authority() != nil || none.TerminatesTLS(host, 443) {
		t.Errorf("without secrets: %v, %q", err, none.Authority())
	}
	client, conn := net.Pipe()
	defer client.Close()
	if err := none.ServeTLS(context.Background(), Route{Name: host, Port: 443, Client: conn}); err == nil {
		t.Error("Secure without an authority has no error")
	}
	later, err := New(Config{SecretsLater: true})
	if err != nil || later.Authority() == nil || later.TerminatesTLS(host, 443) {
		t.Errorf("with secrets later: %v", err)
	}
	one, err := New(lease(nil).config())
	if err != nil || !one.TerminatesTLS(host, 443) || one.TerminatesTLS("other.example", 443) {
		t.Errorf("with a secret: %v", err)
	}
	if string(one.Authority()) == string(later.Authority()) {
		t.Error("two relays share an authority")
	}
}

// TestCertificatesAreStrict uses OpenSSL's strict rules, which Python 3.13 enables.
func TestCertificatesAreStrict(t *testing.T) {
	openssl := hosttest.Program(t, "openssl")
	a, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{host, "_x." + host, strings.Repeat("long-label.", 10) + "example"} {
		leaf, err := a.newCertificate(name)
		if err != nil {
			t.Fatal(err)
		}
		if leaf.Leaf.NotBefore.After(time.Now().Add(-50*time.Minute)) || len(leaf.Leaf.SubjectKeyId) == 0 ||
			string(leaf.Leaf.AuthorityKeyId) != string(a.cert.SubjectKeyId) {
			t.Errorf("%s: from %v, keys %x of %x", name, leaf.Leaf.NotBefore, leaf.Leaf.SubjectKeyId, leaf.Leaf.AuthorityKeyId)
		}
		dir := t.TempDir()
		ca, cert := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "leaf.der")
		os.WriteFile(ca, a.pem, 0o600)
		os.WriteFile(cert, leaf.Certificate[0], 0o600)
		out, err := exec.Command(openssl, "verify", "-x509_strict", "-check_ss_sig", "-purpose", "sslserver",
			"-verify_hostname", name, "-CAfile", ca, cert).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestOtherNamesInTheHello(t *testing.T) {
	g := newRig(t, setup{server: secureServer(t, true, echo), config: lease(nil).config(), secure: true})
	cache := tls.NewLRUClientSessionCache(0)
	for _, sni := range []string{host, "other.example", "x." + host, ""} {
		config := g.trust()
		config.ServerName, config.InsecureSkipVerify, config.ClientSessionCache = sni, true, cache
		conn := tls.Client(g.dial(), config)
		err := conn.Handshake()
		if err == nil {
			_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"))
			if _, readErr := conn.Read(make([]byte, 1)); err == nil {
				err = readErr
			}
		}
		if (err == nil) != (sni == host) {
			t.Errorf("%q: %v", sni, err)
		}
		conn.Close()
	}
}

// sameSession returns the first name's session for all names.
type sameSession struct{ state *tls.ClientSessionState }

func (s *sameSession) Get(string) (*tls.ClientSessionState, bool) { return s.state, s.state != nil }
func (s *sameSession) Put(_ string, state *tls.ClientSessionState) {
	if s.state == nil {
		s.state = state
	}
}

// TestResumedForAnotherName: resuming a session for another name would need no certificate.
func TestResumedForAnotherName(t *testing.T) {
	g := newRig(t, setup{server: secureServer(t, true, echo), config: lease(nil).config(), secure: true})
	cache := &sameSession{}
	ask := func(sni string) (resumed bool, err error) {
		config := g.trust()
		config.ServerName, config.InsecureSkipVerify, config.ClientSessionCache = sni, true, cache
		conn := tls.Client(g.dial(), config)
		defer conn.Close()
		if err := conn.Handshake(); err != nil {
			return false, err
		}
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		_, err = conn.Read(make([]byte, 1))
		return conn.ConnectionState().DidResume, err
	}
	if _, err := ask(host); err != nil {
		t.Fatal(err)
	}
	if resumed, err := ask(host); err != nil || !resumed {
		t.Errorf("the same name: resumed %v, %v", resumed, err)
	}
	if _, err := ask("other.example"); err == nil {
		t.Error("another name was answered")
	}
}

func TestNameIsVerified(t *testing.T) {
	l := lease(nil)
	for name, change := range map[string]func(c *Config, leaf *tls.Certificate){
		"unknown authority": func(c *Config, _ *tls.Certificate) { c.Roots = x509.NewCertPool() },
		"system's roots":    func(c *Config, _ *tls.Certificate) { c.Roots = nil },
		"another name": func(c *Config, leaf *tls.Certificate) {
			a, _ := newAuthority()
			other, _ := a.newCertificate("other.example")
			*leaf = other
			c.Roots = x509.NewCertPool()
			c.Roots.AddCert(a.cert)
		},
	} {
		seen := 0
		server := secureServer(t, true, func(http.ResponseWriter, *http.Request) { seen++ })
		config := l.config()
		change(&config, &server.TLS.Certificates[0])
		address := server.Listener.Addr().String()
		g := newRig(t, setup{config: config, secure: true, dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}})
		res, body := g.send(2, g.request("GET", "/", nil))
		if res.StatusCode != 502 || !strings.Contains(body, "no certificate that can be trusted") || seen > 0 {
			t.Errorf("%s: %s %q, %d requests", name, res.Status, body, seen)
		}
		server.Close()
	}
}

// TestNoFallback: no plaintext is sent to a name without TLS.
func TestNoFallback(t *testing.T) {
	var w witness
	g := newRig(t, setup{config: lease(nil).config(), secure: true, dial: w.dial})
	r := g.request("GET", "/", nil)
	r.Header.Set("X-Key", placeholder)
	if res, body := g.send(1, r); res.StatusCode != 502 {
		t.Errorf("%s %q", res.Status, body)
	}
	if asks, seen := w.takeRequests(); len(asks) > 0 || leaked(seen) {
		t.Errorf("the name saw %q", seen)
	}
}

// TestPrograms: real programs trust the authority and succeed, with their own headers.
func TestPrograms(t *testing.T) {
	g := newRig(t, setup{server: secureServer(t, true, echo), config: lease(nil).config(), secure: true})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, g.relay.Authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(g.address)
	const python = `
import socket, ssl, sys, urllib.request, http.client
real = socket.create_connection
socket.create_connection = lambda address, *a, **k: real(("127.0.0.1", int(sys.argv[1])), *a, **k)
c = ssl.create_default_context(cafile=sys.argv[2])
c.verify_flags |= ssl.VERIFY_X509_STRICT
r = urllib.request.Request("https://` + host + `/py", headers={"X-Key": "` + placeholder + `"})
print(urllib.request.urlopen(r, context=c).read().decode())
`
	const node = `
const dns = require("dns"), net = require("net"), tls = require("tls"), https = require("https"), http2 = require("http2"), fs = require("fs")
const [port, ca] = [+process.argv[1], fs.readFileSync(process.argv[2])]
const headers = {"X-Key": "` + placeholder + `"}
https.get({host: "127.0.0.1", port, servername: "` + host + `", ca, path: "/node", headers: {...headers, host: "` + host + `"}}, r => {
  r.pipe(process.stdout)
  r.on("end", () => {
    const s = http2.connect("https://` + host + `", {ca, createConnection: () =>
      tls.connect({host: "127.0.0.1", port, servername: "` + host + `", ca, ALPNProtocols: ["h2"]})})
    const q = s.request({":path": "/node2", ...headers})
    q.pipe(process.stdout)
    q.on("end", () => s.close())
  })
})
`
	for name, c := range map[string]struct {
		command []string
		want    []string
	}{
		"curl": {[]string{"curl", "-sS", "--connect-to", host + ":443:127.0.0.1:" + port, "--cacert", ca, "-H", "X-Key: " + placeholder,
			"https://" + host + "/curl"}, []string{"GET /curl\nHost: " + host}},
		"curl 1.1": {[]string{"curl", "-sS", "--http1.1", "--connect-to", host + ":443:127.0.0.1:" + port, "--cacert", ca, "-H",
			"X-Key: " + placeholder,
			"--compressed", "-d", "body", "https://" + host + "/curl"}, []string{"POST /curl\nHost: " + host, "\n\nbody"}},
		"python3": {[]string{"python3", "-c", python, port, ca}, []string{"GET /py\nHost: " + host}},
		"node":    {[]string{"node", "-e", node, "--", port, ca}, []string{"GET /node\nHost: " + host, "GET /node2\nHost: " + host}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), hosttest.Program(t, c.command[0]), c.command[1:]...)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range append(c.want, "X-Key: "+mark) {
				if !strings.Contains(string(out), want) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
		})
	}
}
