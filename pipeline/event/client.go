package event

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"
)

// Bounds for a receiver of events.
const (
	// AtOnce is the maximum of connections to one receiver.
	AtOnce = 4
	// MaxAnswer bounds the part of an answer that is read, in bytes.
	MaxAnswer = 64 << 10
)

// Client returns an HTTP client that sends events to one address. It follows no redirects, because signed data for
// one address must not reach another. answer bounds the time of a request; nil roots are the system's.
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
			DisableCompression:     true, // answers are not read
			MaxIdleConnsPerHost:    AtOnce,
			MaxConnsPerHost:        AtOnce,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: MaxAnswer,
		},
	}
}
