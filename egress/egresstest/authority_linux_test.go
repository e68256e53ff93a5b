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

// authority makes a directory like /etc/ssl/certs that trusts a new certificate authority alone, and
// a certificate of it that is good for every site: certificates must not be what keeps an attack off.
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
	command(t, "openssl", "rehash", dir) // links by hash are what Python looks for
	return ca.Sign(leaf)
}
