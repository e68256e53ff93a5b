package egresstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
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
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	fatal(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fatal(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "test server"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, DNSNames: namesOf(allSites),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, s := range allSites {
		for _, a := range s.addrs {
			leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(a))
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	fatal(err)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	fatal(os.Mkdir(dir, 0o755))
	for _, name := range []string{"ca-certificates.crt", "test.pem"} {
		fatal(os.WriteFile(filepath.Join(dir, name), bundle, 0o644))
	}
	command(t, "openssl", "rehash", dir) // links by hash are what Python looks for
	return tls.Certificate{Certificate: [][]byte{der, caDER}, PrivateKey: key}
}
