package identity

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
)

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// Certificates are checked by a real server, over TLS.
func TestCertificates(t *testing.T) {
	ca, other := tlstest.New(t, "CA"), tlstest.New(t, "CA")
	s := quick(t.TempDir())
	token := create(t, s, agent)
	c := New(Config{Tokens: s, Certificates: map[string]Grant{
		"uri:spiffe://example.com/ci": {Agent, Only("ci")},
		"dns:ci.example.com":          {Agent, Only("build")},
		"cn:Ada":                      {Person, All()},
		"cn:both":                     {Person, All()},
		"cn:":                         {Person, All()},
	}})
	server := httptest.NewUnstartedServer(c.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, _ := From(r.Context())
		fmt.Fprintf(w, "%s %s %v", i, i.Kind, i.Namespaces.List())
	})))
	server.TLS = &tls.Config{ClientCAs: ca.Pool(), ClientAuth: tls.VerifyClientCertIfGiven}
	server.Config.ErrorLog = nil
	server.StartTLS()
	defer server.Close()

	spiffe, elsewhere := must(url.Parse("spiffe://example.com/ci")), must(url.Parse("spiffe://example.com/ci/x"))
	for name, tt := range map[string]struct {
		cert   *tls.Certificate
		token  string
		status int // 0: no connection
		body   string
	}{
		"URI": {certificate(ca.Sign(x509.Certificate{URIs: []*url.URL{spiffe}})), "", 200,
			"certificate:uri:spiffe://example.com/ci agent [ci]"},
		"DNS": {certificate(ca.Sign(x509.Certificate{DNSNames: []string{"CI.example.com"}})), "", 200,
			"certificate:dns:ci.example.com agent [build]"},
		"CN": {certificate(ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "Ada"}})), "", 200,
			"certificate:cn:Ada person [*]"},
		"none":          {nil, "", 401, "token is required"},
		"unknown":       {certificate(ca.Sign(x509.Certificate{DNSNames: []string{"x.example.com"}})), "", 401, "not valid"},
		"longer URI":    {certificate(ca.Sign(x509.Certificate{URIs: []*url.URL{elsewhere}})), "", 401, "not valid"},
		"wildcard":      {certificate(ca.Sign(x509.Certificate{DNSNames: []string{"*.example.com"}})), "", 401, "not valid"},
		"CN of another": {certificate(ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "ci.example.com"}})), "", 401, "not valid"},
		"CN beside DNS": {certificate(ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "Ada"}, DNSNames: []string{"x.example.com"}})), "",
			401, "not valid"},
		"two names": {certificate(ca.Sign(x509.Certificate{URIs: []*url.URL{spiffe}, DNSNames: []string{"ci.example.com"}})), "", 401,
			"not valid"},
		"token, too":  {certificate(ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "Ada"}})), token, 200, "token:ci agent"},
		"wrong token": {certificate(ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "Ada"}})), wrongSecret(token), 401, "not valid"},
		"another CA":  {certificate(other.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "Ada"}})), "", 0, ""},
		"expired": {certificate(ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "Ada"}, NotAfter: time.Now().Add(-time.Minute)})), "",
			0, ""},
		"of a server": {certificate(ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "Ada"}, ExtKeyUsage: []x509.ExtKeyUsage{
			x509.ExtKeyUsageServerAuth}})), "", 0, ""},
	} {
		roots := x509.NewCertPool()
		roots.AddCert(server.Certificate())
		config := &tls.Config{RootCAs: roots}
		if tt.cert != nil {
			// A client's own choice would leave out a certificate that the server's CA has not signed.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return tt.cert, nil }
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		r := must(http.NewRequest(http.MethodPost, server.URL, nil))
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		answer, err := client.Do(r)
		if err != nil {
			if tt.status != 0 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		body := must(io.ReadAll(answer.Body))
		answer.Body.Close()
		if answer.StatusCode != tt.status || !strings.Contains(string(body), tt.body) {
			t.Errorf("%s: got %d %s, want %d %s", name, answer.StatusCode, body, tt.status, tt.body)
		}
	}
}

func certificate(c tls.Certificate) *tls.Certificate { return &c }

// A certificate ends, also on a connection that goes on; and one that the listener has not verified is nothing.
func TestCertificateLater(t *testing.T) {
	c := New(Config{Certificates: map[string]Grant{"cn:Ada": {Person, All()}}})
	ca := tlstest.New(t, "CA")
	for name, tt := range map[string]struct {
		until    time.Duration
		verified bool
		status   int
	}{"holds": {time.Minute, true, 200}, "expired": {-time.Minute, true, 401}, "not verified": {time.Minute, false, 401}} {
		leaf := must(x509.ParseCertificate(ca.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "Ada"},
			NotAfter: time.Now().Add(tt.until)}).Certificate[0]))
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		if tt.verified {
			r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf, ca.Cert}}
		}
		wantStatus(t, name, send(c, r), tt.status)
	}
}
