package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificate is a new one, in DER.
func certificate(t *testing.T, authority bool) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour), IsCA: authority, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestAuthorities(t *testing.T) {
	dir := t.TempDir()
	one, two, leaf := certificate(t, true), certificate(t, true), certificate(t, false)
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
