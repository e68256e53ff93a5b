package door

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
)

// authority signs certificates for 127.0.0.1 and for clients.
type authority struct{ *tlstest.Authority }

func newAuthority(t *testing.T) authority { return authority{tlstest.New(t, "CA")} }

// pair returns a certificate and its key, as PEM.
func (a authority) pair() (cert, key []byte) {
	return a.SignPEM(x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// server writes a new certificate of a server into dir.
func (a authority) server(t *testing.T, dir string) (certFile, keyFile string) {
	cert, key := a.pair()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, certFile, cert)
	write(t, keyFile, key)
	return certFile, keyFile
}

// client returns a client that trusts a, uses HTTP/2, and shows a certificate, if there is one whatever the server asks
// for.
func (a authority) client(t *testing.T, own ...tls.Certificate) *http.Client {
	c := &tls.Config{RootCAs: a.Pool()}
	if len(own) > 0 {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own[0], nil }
	}
	tr := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func getOnce(client *http.Client, url string) (string, *tls.ConnectionState, error) {
	w, err := client.Get(url)
	if err != nil {
		return "", nil, err
	}
	defer w.Body.Close()
	return string(must(io.ReadAll(w.Body))), w.TLS, nil
}

// A renewal needs no restart, and one that is half done nothing at all.
func TestRenewal(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	cert, key := ca.server(t, dir)
	d, log := start(t, Config{Cert: cert, Key: key}, usual)
	serial := func() string {
		t.Helper()
		body, state, err := getOnce(ca.client(t), d.Address()+"/a")
		if err != nil || body != "HTTP/2.0 /a 0" {
			t.Fatalf("got %s, %v", body, err)
		}
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	if again := serial(); again != first {
		t.Errorf("got %s and then %s", first, again)
	}
	newCert, newKey := ca.pair()
	write(t, cert, append(newCert, '\n')) // another size: clocks of file systems may be coarse
	if got := serial(); got != first {
		t.Errorf("half a renewal: got %s, want %s", got, first)
	}
	if serial(); strings.Count(log.String(), "can't be used") != 1 {
		t.Errorf("the log says: %s", log)
	}
	write(t, key, append(newKey, '\n'))
	if got := serial(); got == first {
		t.Error("the certificate was not renewed")
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	serial()

	old := ca.client(t)
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS11
	if _, _, err := getOnce(old, d.Address()); err == nil {
		t.Error("TLS 1.1 will do")
	}
	for _, c := range []Config{{Cert: cert, Key: key}, {Cert: cert, Key: cert}, {Cert: cert, Key: key, ClientCA: key}} {
		if c.Address = "127.0.0.1:0"; c.ClientCA != "" {
			ca.server(t, dir)
		}
		if d, err := Listen(t.Context(), c); err == nil {
			t.Errorf("%+v: it listens at %s", c, d.Address())
		}
	}
}

func TestClientCertificate(t *testing.T) {
	ca, other, dir := newAuthority(t), newAuthority(t), t.TempDir()
	cert, key := ca.server(t, dir)
	clientCA := filepath.Join(dir, "ca.pem")
	write(t, clientCA, ca.PEM())
	d, _ := start(t, Config{Cert: cert, Key: key, ClientCA: clientCA, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, len(r.TLS.VerifiedChains))
	})}, usual)
	of := func(a authority) tls.Certificate { return must(tls.X509KeyPair(a.pair())) }
	known, foreign := ca.client(t, of(ca)), ca.client(t, of(other))
	for name, tt := range map[string]struct {
		client *http.Client
		want   string // "" is no connection
	}{"known": {known, "1"}, "none": {ca.client(t), "0"}, "foreign": {foreign, ""}} {
		if got, _, err := getOnce(tt.client, d.Address()); got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, tt.want)
		}
	}
	write(t, clientCA, append(other.PEM(), '\n'))
	known.CloseIdleConnections()
	if got, _, err := getOnce(known, d.Address()); err == nil {
		t.Errorf("after a change of the authority: got %s", got)
	}
	if got, _, err := getOnce(foreign, d.Address()); got != "1" {
		t.Errorf("after a change of the authority: got %s, %v", got, err)
	}
}
