// Package tlstest makes certificates for tests.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"
)

// Authority signs certificates. It is valid from two days ago for four days.
type Authority struct {
	Cert *x509.Certificate // its own
	t    testing.TB
	key  *ecdsa.PrivateKey
}

// New returns a new authority of this name.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	const days = 48 * time.Hour
	template := &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-days), NotAfter: time.Now().Add(days),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	a := &Authority{t: t, key: newKey(t)}
	own, err := x509.ParseCertificate(a.create(template, template, a.key))
	if err != nil {
		t.Fatal(err)
	}
	a.Cert = own
	return a
}

// Sign returns a certificate of a new key, followed by the authority's. Defaults of the template: the authority's
// validity, and use by servers and clients.
func (a *Authority) Sign(template x509.Certificate) tls.Certificate {
	a.t.Helper()
	template.NotBefore, template.KeyUsage = a.Cert.NotBefore, x509.KeyUsageDigitalSignature
	if template.NotAfter.IsZero() {
		template.NotAfter = a.Cert.NotAfter
	}
	if template.ExtKeyUsage == nil {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	key := newKey(a.t)
	return tls.Certificate{Certificate: [][]byte{a.create(&template, a.Cert, key), a.Cert.Raw}, PrivateKey: key}
}

// SignPEM is Sign with results in PEM.
func (a *Authority) SignPEM(template x509.Certificate) (cert, key []byte) {
	a.t.Helper()
	c := a.Sign(template)
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return append(inPEM("CERTIFICATE", c.Certificate[0]), a.PEM()...), inPEM("PRIVATE KEY", der)
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte { return inPEM("CERTIFICATE", a.Cert.Raw) }

// Pool trusts the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.Cert)
	return p
}

func (a *Authority) create(template, parent *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key) // with a random serial number
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
