package wiring

import (
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// Clients are identified by a token in the state directory, or by a configured certificate.
func TestIdentities(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := "state_dir: " + dir + "\nhttp:\n  proxies: [127.0.0.0/8]\n  client_ca: /x.pem\n  tls_cert: /x.pem\n  tls_key: /x.pem\n  " +
		"certificates: {\"dns:ci.example.com\": {kind: agent, namespaces: [ci]}}\n" +
		"  oauth: {issuer: \"https://login.example.com\", resource: \"https://sandbox.example.com/mcp\", scopes: [mcp]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{File: file, Env: []string{"HOME=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := identity.OpenTokens(dir).Create(t.Context(), identity.Token{Name: "ada", Kind: identity.Person,
		Namespaces: identity.All()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Identities(cfg, nil)
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"ci.example.com"}, NotAfter: time.Now().Add(time.Hour)}
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}
	if i, err := c.Identify(r); err != nil || i.String() != "certificate:dns:ci.example.com" || !i.May("ci") || i.May("default") {
		t.Errorf("got %+v, %v", i, err)
	}
	r.TLS = nil
	r.Header.Set("Authorization", "Bearer "+token)
	if i, err := c.Identify(r); err != nil || i.String() != "token:ada" {
		t.Errorf("got %+v, %v", i, err)
	}
	tryWrong := func(client string) int {
		g := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		g.RemoteAddr = "127.0.0.1:1234"
		g.Header.Set("Authorization", "Bearer x")
		g.Header.Set("X-Forwarded-For", client)
		_, err := c.Identify(g)
		return identity.AsRefused(err).Status
	}
	for range 20 {
		tryWrong("192.0.2.1")
	}
	if one, other := tryWrong("192.0.2.1"), tryWrong("192.0.2.2"); one != http.StatusTooManyRequests || other != http.StatusUnauthorized {
		t.Errorf("behind a proxy: who guesses gets %d, and who does not %d", one, other)
	}
	w := httptest.NewRecorder()
	c.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, identity.MetadataPath+"/mcp", nil))
	if w.Code != http.StatusOK {
		t.Errorf("the metadata: %d %s", w.Code, w.Body)
	}
}
