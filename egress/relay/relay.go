// Package relay is an HTTP proxy to a single name that puts secrets into requests, so that the program that sends the
// requests never has the secrets.
//
// Requests are read by a real HTTP server and written anew by a real HTTP client. So the relay and the name's server
// can't parse a request differently (request smuggling), and the checked Host is the sent Host.
package relay

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
)

// Config configures a relay. Its functions may be called concurrently.
type Config struct {
	// Secrets returns the bound secrets that are leased now; TLS to their names is terminated here. It is called for each
	// request, since a session's leases grow. Nil is none.
	Secrets func() []Secret
	// Redact and Redactor remove the secrets from responses, in any encoding that the vault knows. Nil without Secrets.
	// Closing a Redactor writes the bytes that it held back.
	Redact   func(string) string
	Redactor func(io.Writer) io.WriteCloser

	SecretsLater bool           // there may be Secrets later, so the relay needs an Authority from the start
	Roots        *x509.CertPool // for verifying names' certificates; nil is the machine's
	Fetch        *Fetch         // nil forwards all requests
}

// Secret is a bound secret. It is put into requests to its names, and nowhere else: into header values, the query,
// Basic credentials, and bodies if Body is set.
type Secret struct {
	Name        string
	Placeholder string                           // stands for the value in the program
	Value       func() string                    // "" once its lease is closed
	Bound       func(name string, port int) bool // reports whether it is bound to name
	Clear       func(name string, port int) bool // reports whether it may be sent there without TLS; nil is never
	Require     bool                             // refuse requests to its names without it; see credential.go
	Body        bool                             // substitute it in request bodies, too
	Header      string                           // header that carries the value in each request, in place of the program's own; "" is none
}

// Route is a connection of a program to a name.
type Route struct {
	Name   string // canonical: lower case, ASCII, no final dot
	Port   int
	Client net.Conn // unread from the first byte; the relay closes it
	// Dial connects to the name, at a checked address, and counts bytes. The error wraps ErrRefused if a rule forbids the
	// connection. It may be called concurrently.
	Dial func(ctx context.Context) (net.Conn, error)
	// OnRefusal is called for each refused request. It may be called concurrently.
	OnRefusal func(reason string)
}

// ErrRefused says that a rule forbids a Dial. The program gets the error's text with status 403, instead of 502 for a
// failure.
var ErrRefused = errors.New("refused")

// ErrHandshake is in the chain of ServeTLS's error if the program's handshake fails, for example because it does not
// trust the Authority.
var ErrHandshake = errors.New("end TLS")

// Relay forwards HTTP for a sandbox. Its methods may be called concurrently. A nil Relay has no secrets.
type Relay struct {
	cfg       Config
	authority *authority             // nil if no TLS is terminated
	bodies    chan struct{}          // slots for bodies in memory
	sessions  tls.ClientSessionCache // saves a round trip of later connections to a name
}

// New returns a relay, with its own certificate authority if there are or may be secrets.
func New(c Config) (*Relay, error) {
	r := &Relay{cfg: c, bodies: make(chan struct{}, maxBodies), sessions: tls.NewLRUClientSessionCache(maxResumable)}
	if !c.SecretsLater && c.Fetch == nil && len(r.secrets()) == 0 {
		return r, nil
	}
	var err error
	if r.authority, err = newAuthority(); err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return r, nil
}

func (r *Relay) secrets() []Secret {
	if r.cfg.Secrets == nil {
		return nil
	}
	return r.cfg.Secrets()
}

// bound returns the secrets that are bound to name.
func (r *Relay) bound(name string, port int) []Secret {
	var bound []Secret
	for _, s := range r.secrets() {
		if s.Bound != nil && s.Bound(name, port) {
			bound = append(bound, s)
		}
	}
	return bound
}

// Authority is the PEM certificate that the sandbox must trust; nil if no TLS is terminated.
func (r *Relay) Authority() []byte {
	if r == nil || r.authority == nil {
		return nil
	}
	return r.authority.pem
}

// TerminatesTLS reports whether TLS to name is terminated here.
func (r *Relay) TerminatesTLS(name string, port int) bool {
	return r != nil && r.authority != nil && (r.cfg.Fetch != nil || len(r.bound(name, port)) > 0)
}

// Serve serves HTTP in the clear (HTTP/1.x, and HTTP/2 by prior knowledge) until the connection ends, or ctx, whose
// error it then returns. When it returns, its goroutines have ended, and its connections to the name close.
//
// It substitutes only secrets that may be sent in the clear. It refuses requests with the placeholder of any other
// secret, and all requests if such a secret is required.
//
// A program that closes its sending half counts as gone, as in net/http.
func (r *Relay) Serve(ctx context.Context, t Route) error {
	r = cmp.Or(r, &Relay{})
	return (&clientConn{relay: r, route: t}).serve(ctx, t.Client)
}

// ServeTLS terminates TLS and serves the HTTP inside until the connection or ctx ends. It returns an error if the
// program's handshake fails, which includes an SNI other than the name. It uses TLS to the name and verifies the real
// certificate: if that fails, it answers each request with 502.
//
// Not covered: frames of WebSockets (secrets are substituted in the handshake only, and later bytes are not redacted),
// compressed gRPC messages, and values that the name's server returns in a form unknown to the Redactor, for example in
// pieces over several answers.
func (r *Relay) ServeTLS(ctx context.Context, t Route) error {
	if r == nil || r.authority == nil {
		t.Client.Close()
		return errors.New("end TLS: this relay was made without an authority")
	}
	conn, err := r.authority.handshake(ctx, t)
	if err != nil {
		t.Client.Close()
		return err
	}
	return (&clientConn{relay: r, route: t, secure: true}).serve(ctx, conn)
}
