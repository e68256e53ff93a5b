package door

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// files are the files of the TLS configuration.
type files struct {
	cert, key, ca string
	log           *slog.Logger

	mu      sync.Mutex
	state   string // times and sizes of the files when last read
	current *tls.Config
}

// config returns the TLS configuration for the next connection, from the current files. While they are invalid, for
// example because a renewal has written only one of them, the previous configuration stays.
func (f *files) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state := ""
	for _, path := range []string{f.cert, f.key, f.ca} {
		if info, err := os.Stat(path); err == nil {
			state += fmt.Sprintln(info.ModTime().UnixNano(), info.Size())
		}
	}
	if f.current != nil && state == f.state {
		return f.current, nil
	}
	f.state = state
	fresh, err := f.read()
	switch {
	case err == nil:
		f.current = fresh
	case f.current == nil:
		return nil, err
	default:
		f.log.Error("the new TLS certificate can't be used, so the old one stays in use", "error", err)
	}
	return f.current, nil
}

func (f *files) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if f.ca == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, err
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%q contains no PEM certificate", f.ca)
	}
	return c, nil
}
