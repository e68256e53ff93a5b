package event

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"
)

// Bounds of what a receiver of events can have us do.
const (
	// AtOnce is how many connections there are to one.
	AtOnce = 4
	// MaxAnswer is how much of an answer is worth reading, in bytes.
	MaxAnswer = 64 << 10
)

// Client tells events to one address outside. It follows no redirects: what is signed or told for one
// address is nobody else's business. answer is how long a request may take; nil roots are the machine's.
func Client(roots *x509.CertPool, answer time.Duration) *http.Client {
	return &http.Client{
		Timeout:       answer,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: answer / 2}).DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    answer / 2,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true, // an answer is not worth unpacking
			MaxIdleConnsPerHost:    AtOnce,
			MaxConnsPerHost:        AtOnce,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: MaxAnswer,
		},
	}
}
