package relay

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// certLifetime is the validity of the authority and its certificates, longer than any session.
	certLifetime = 30 * 24 * time.Hour
	// clockSkew is the tolerance for a slow clock in the sandbox.
	clockSkew = time.Hour
	// maxLeaves is the number of cached certificates: a program may make up names below a wildcard.
	maxLeaves = 1000
	// handshakeTimeout bounds each TLS handshake.
	handshakeTimeout = 30 * time.Second
	// maxCommonName is the upper bound of RFC 5280, appendix A.1.
	maxCommonName = 64
)

// authority issues certificates that only the programs of a sandbox trust. Its key never leaves memory.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte

	mu     sync.Mutex
	leaves map[string]*tls.Config // by name; a config keeps the keys of its session tickets
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{ // the serial is random, the subject's key identifier a hash
		Subject:               pkix.Name{CommonName: "sandboxmcp run CA"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(certLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	cert, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	return &authority{cert: cert, key: key, pem: text, leaves: map[string]*tls.Config{}}, nil
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// handshake terminates the TLS of a program that names the route's name. It closes nothing.
func (a *authority) handshake(ctx context.Context, t Route) (net.Conn, error) {
	config, err := a.tlsConfig(t.Name)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", t.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn := tls.Server(t.Client, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("%w for %s: %w", ErrHandshake, t.Name, err)
	}
	if sni := conn.ConnectionState().ServerName; !sameName(sni, t.Name) && (sni != "" || !t.isAddress()) {
		return nil, fmt.Errorf("%w for %s: the client asked for %.80q", ErrHandshake, t.Name, sni)
	}
	return conn, nil
}

// tlsConfig returns the TLS configuration for a name, always the same while its certificate is cached.
func (a *authority) tlsConfig(name string) (*tls.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[name]; c != nil {
		return c, nil
	}
	leaf, err := a.newCertificate(name)
	if err != nil {
		return nil, err
	}
	if len(a.leaves) >= maxLeaves {
		clear(a.leaves)
	}
	a.leaves[name] = &tls.Config{NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{leaf}}
	return a.leaves[name], nil
}

// newCertificate issues a certificate that passes the strict rules of OpenSSL, which Python turns on: key
// identifiers of subject and authority, and an alternative name that is critical if there is no subject.
func (a *authority) newCertificate(name string) (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return c, err
	}
	id := sha256.Sum256(public)
	template := &x509.Certificate{
		NotBefore:             a.cert.NotBefore,
		NotAfter:              a.cert.NotAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          id[:20],
		DNSNames:              []string{name},
	}
	if ip := net.ParseIP(name); ip != nil {
		// With a proxy, Node's TLS expects the name localhost if there is none.
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{ip}
	}
	if len(name) <= maxCommonName {
		template.Subject.CommonName = name
	}
	cert, err := sign(template, a.cert, key.Public(), a.key)
	if err != nil {
		return c, err
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}, nil
}
