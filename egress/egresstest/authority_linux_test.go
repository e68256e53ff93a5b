package egresstest

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
)

// authority makes a directory like /etc/ssl/certs that trusts only a new certificate authority, and a certificate
// of it that is valid for every site: certificates must not be the reason why an attack fails.
func authority(t *testing.T, dir string) tls.Certificate {
	t.Helper()
	fatal := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	ca := tlstest.New(t, "test authority")
	leaf := x509.Certificate{Subject: pkix.Name{CommonName: "test server"}, DNSNames: namesOf(allSites)}
	for _, s := range allSites {
		for _, a := range s.addrs {
			leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(a))
		}
	}
	fatal(os.Mkdir(dir, 0o755))
	for _, name := range []string{"ca-certificates.crt", "test.pem"} {
		fatal(os.WriteFile(filepath.Join(dir, name), ca.PEM(), 0o644))
	}
	command(t, "openssl", "rehash", dir) // Python looks for links by hash
	return ca.Sign(leaf)
}
