package docker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// environTLS returns the configuration of DOCKER_TLS_VERIFY and DOCKER_CERT_PATH; nil without them. Docker's command
// does not check the server's certificate where only the latter is set. We do: a forgotten variable must not open a
// root shell on a machine's Docker, or connect to an impostor.
func environTLS(environ []string, dir string) (*tls.Config, error) {
	path := variable(environ, "DOCKER_CERT_PATH")
	if path == "" && variable(environ, "DOCKER_TLS_VERIFY") == "" {
		return nil, nil
	}
	if path != "" {
		dir = path
	}
	c, err := readTLS(dir, false)
	if c == nil && err == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return c, err
}

// readTLS reads ca.pem, cert.pem and key.pem from a directory, as far as they exist; nil if none does and the server is
// to be verified as usual.
func readTLS(dir string, skip bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skip} // skip: the user's own words, in the context
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	found := err == nil
	if err == nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("read %s: it has no certificate", filepath.Join(dir, "ca.pem"))
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the certificate of Docker's authority: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err == nil {
		found = true
		c.Certificates = []tls.Certificate{pair}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read our certificate for Docker: %w", err)
	}
	if !found && !skip {
		return nil, nil
	}
	return c, nil
}
