package browser

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
)

func TestAuthorities(t *testing.T) {
	dir := t.TempDir()
	authority := tlstest.New(t, "one")
	one, two, leaf := authority.Cert.Raw, tlstest.New(t, "two").Cert.Raw, authority.Sign(x509.Certificate{}).Certificate[0]
	inPEM := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	var files []string
	for name, content := range map[string][]byte{
		"both.pem": append(append(inPEM("CERTIFICATE", one), inPEM("CERTIFICATE", leaf)...), inPEM("PRIVATE KEY", one)...),
		"two.der":  two, "again.crt": inPEM("CERTIFICATE", one), "README": []byte("hello"), "empty": nil, "half": one[:100],
	} {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, at)
	}
	got := authorities(append(files, dir, filepath.Join(dir, "none")))
	if len(got) != 2 {
		t.Errorf("%d authorities, want 2", len(got))
	}
	t.Setenv("SSL_CERT_FILE", filepath.Join(dir, "two.der"))
	t.Setenv("SSL_CERT_DIR", dir)
	if got := Authorities(); len(got) < 2 {
		t.Errorf("%d authorities, want 2", len(got))
	}
	if Trust(nil) != nil {
		t.Error("files without authorities")
	}
}
