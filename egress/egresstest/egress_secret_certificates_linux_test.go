package egresstest

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
)

// signed returns a certificate of a new authority, which the world's machines trust if trusted is true.
func (w *world) signed(trusted bool, name string, until time.Time) tls.Certificate {
	w.Helper()
	ca := tlstest.New(w, "another authority "+name)
	if trusted {
		f, err := os.OpenFile(w.path("certs/ca-certificates.crt"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			w.Fatal(err)
		}
		defer f.Close()
		f.Write(ca.PEM())
	}
	return ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: until})
}

// TestSecretNeedsTheRealServer has servers without a valid certificate answer for the bound name.
func TestSecretNeedsTheRealServer(t *testing.T) {
	requirePrograms(t, "curl")
	a := &api{value: newValue()}
	w := newWorld(t, map[string]http.Handler{bound: a.listen(bound, a.ownHandlers())})
	day := 24 * time.Hour
	serve := func(port string, c *tls.Config) { w.serveTLS(c, port, a.listen("port "+port, a.ownHandlers())) }
	with := func(c tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{c}} }
	serve("9443", with(w.signed(true, bound, time.Now().Add(day)))) // this one is valid
	serve("8443", with(w.signed(true, bound, time.Now().Add(-day/2))))
	serve("8444", with(w.signed(true, "wrong.test", time.Now().Add(day))))
	serve("8445", with(w.signed(false, bound, time.Now().Add(day))))
	serve("8446", &tls.Config{Certificates: []tls.Certificate{w.signed(true, bound, time.Now().Add(day))}, MaxVersion: tls.VersionTLS11})
	serve("8447", &tls.Config{Certificates: []tls.Certificate{w.signed(true, bound, time.Now().Add(day))},
		ClientAuth: tls.RequireAnyClientCert})
	for port, says := range map[string]string{"8448": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain", "8449": ""} {
		l := w.internet.listen(t, "tcp", ":"+port)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					b := make([]byte, 4096)
					n, _ := c.Read(b)
					a.mu.Lock()
					a.seen = append(a.seen, heard{name: "port " + port, body: string(b[:n])})
					a.mu.Unlock()
					c.Write([]byte(says))
				}()
			}
		}()
	}
	flags := []string{"--secret", "API_KEY", "--allow", bound, "--allow", bound + ":8450"}
	hosts := []string{"--host", bound, "--host", bound + ":443", "--host", bound + ":8450"}
	for _, port := range []string{"9443", "8443", "8444", "8445", "8446", "8447", "8448", "8449"} {
		flags = append(flags, "--allow", bound+":"+port)
		hosts = append(hosts, "--host", bound+":"+port)
	}
	w.bind(t, "", "API_KEY", a.value, hosts...)
	r := w.run("", "secret_certificates.sh", flags...)
	want := map[string]string{
		"9443": "200 ok known", "8443": "502 expired", "8444": "502 not " + bound, "8445": "502 unknown authority",
		"8446": "502 protocol version",
		"8447": "502", "8448": "502", "8449": "502", "8450": "502 refused", "plain-443": "403 over TLS only", "plain-8443": "403 over TLS only",
	}
	seen := map[string]bool{}
	for line := range strings.Lines(r.Stdout) {
		name, output, _ := strings.Cut(strings.TrimSpace(line), " ")
		status, reason, _ := strings.Cut(want[name], " ")
		if want[name] == "" || !strings.HasPrefix(output, status) || !strings.Contains(output, reason) {
			t.Errorf("%s: %s, want %s", name, output, want[name])
		}
		seen[name] = true
	}
	if len(seen) != len(want) {
		t.Errorf("%d lines: %s%s", len(seen), r.Stdout, r.Stderr)
	}
	for _, h := range a.takeRequests() {
		if good := h.name == "port 9443"; strings.Contains(h.all(), a.value) != good {
			t.Errorf("%s: %.300q", h.name, h.all())
		}
	}
	for _, e := range w.takeEvents() {
		if strings.Contains(e.text, a.value) {
			t.Errorf("unencrypted: %.300v", e)
		}
	}
	w.cleanRun(t, "", r, a.value)
}

// TestSecretAuthorityIsOfOneRun copies one sandbox's trusted authority into another sandbox.
func TestSecretAuthorityIsOfOneRun(t *testing.T) {
	requirePrograms(t, "curl")
	a := &api{value: newValue()}
	w := newWorld(t, map[string]http.Handler{bound: a.listen(bound, a.ownHandlers())})
	w.bind(t, "", "API_KEY", a.value, "--host", bound)
	w.bind(t, "", "FREE_KEY", newValue())
	script := func(flags ...string) result {
		return w.run("", "secret_authority.sh", append([]string{"--allow", bound, "--allow", "example.test"}, flags...)...)
	}
	first := script("--secret", "API_KEY")
	_, ca, ok := strings.Cut(first.Stdout, "-----BEGIN")
	if !ok || !strings.Contains(first.Stdout, "bound: sandboxmcp run CA") || !strings.Contains(first.Stdout, "free: test authority") {
		t.Fatalf("%+v", first)
	}
	w.write("first.pem", "-----BEGIN"+ca)
	second := script("--secret", "API_KEY", "--input", w.path("first.pem"))
	if !strings.Contains(second.Stdout, "bound: sandboxmcp run CA") || !strings.Contains(second.Stdout, "with the first's: 60") ||
		strings.Contains(second.Stdout, ca) {
		t.Errorf("the second sandbox: %s%s", second.Stdout, second.Stderr)
	}
	for _, flags := range [][]string{nil, {"--secret", "FREE_KEY"}} {
		if r := script(flags...); !strings.Contains(r.Stdout, "bound: test authority") || strings.Contains(r.Stdout, "BEGIN") {
			t.Errorf("without the secret: %s%s", r.Stdout, r.Stderr)
		}
	}
	if text, err := os.ReadFile(w.path("certs/ca-certificates.crt")); err != nil || strings.Contains(string(text), ca) {
		t.Errorf("the machine trusts it: %v", err)
	}
}
