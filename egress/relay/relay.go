// Package relay is an HTTP proxy to a single name that puts secrets into requests, so that the program that sends the
// requests never has the secrets.
//
// Requests are read by a real HTTP server and written anew by a real HTTP client. So what the program
// wrote and what the name's server reads can't be split in two different ways (request smuggling), and
// the Host that was checked is the Host that is sent.
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
	// Secrets returns the bound secrets that are leased now; TLS to their names is terminated here. It is
	// called for each request, as a session leases more over time. Nil is none.
	Secrets func() []Secret
	// Redact and Redactor remove the secrets from responses, however servers spell them. Nil where there are no Secrets.
	// Closing a Redactor writes the bytes that it held back.
	Redact   func(string) string
	Redactor func(io.Writer) io.WriteCloser

	SecretsLater bool           // there may be Secrets later, so there has to be an Authority from the beginning
	Roots        *x509.CertPool // that names' real certificates are verified with; nil are the machine's
	Fetch        *Fetch         // nil passes all requests on
}

// Secret is a bound secret. It is put into requests to its names, and nowhere else: into header values, the query,
// Basic credentials, and bodies if Body is set.
type Secret struct {
	Name        string
	Placeholder string                           // what the program has instead
	Value       func() string                    // "" once its lease is closed
	Bound       func(name string, port int) bool // whether name is one of its names
	Clear       func(name string, port int) bool // whether it may go there without TLS; nil is no
	Require     bool                             // requests to its names without it are refused; see credential.go
	Body        bool                             // it is put into request bodies, too
	Header      string                           // a header that each request to its names has it in, whatever the program sent there; "" is none
}

// Route is a connection of a program to a name.
type Route struct {
	Name   string // canonical: lower case, ASCII, no final dot
	Port   int
	Client net.Conn // all that the program sent is still to be read; it is closed in the end
	// Dial connects to the name, at an address that was checked; it counts bytes. If it must not be
	// connected to, ErrRefused is in the error's chain. It may be called concurrently.
	Dial func(ctx context.Context) (net.Conn, error)
	// OnRefusal is called for each refused request. It may be called concurrently.
	OnRefusal func(reason string)
}

// ErrRefused says that Dial failed because of a rule. The program gets the error's text with status 403, instead
// of 502 for a failure.
var ErrRefused = errors.New("refused")

// ErrHandshake is in the chain of ServeTLS's error when the program's handshake fails: it does not
// trust the Authority, for instance.
var ErrHandshake = errors.New("end TLS")

// Relay passes HTTP on for a sandbox. Its methods may be called concurrently. A nil Relay has no secrets.
type Relay struct {
	cfg       Config
	authority *authority             // nil if no TLS is ended
	bodies    chan struct{}          // a place for each body that is in memory
	sessions  tls.ClientSessionCache // saves later connections to a name a round trip
}

// New returns a relay; with a certificate authority of its own if there are or may be secrets.
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

// Authority is the PEM certificate that the sandbox must trust; nil if no TLS is ended.
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

// Serve serves HTTP in the clear (HTTP/1.x, and HTTP/2 by prior knowledge) until the connection ends,
// or ctx, whose error it then returns. When it returns, all that it began has ended, and its connections to the name
// end.
//
// Only secrets that may travel in the clear here are put in. A request with the placeholder of any other secret is
// refused, and so is each request if such a secret is required.
//
// A program that closes its sending half is taken for one that went away, as net/http does.
func (r *Relay) Serve(ctx context.Context, t Route) error {
	r = cmp.Or(r, &Relay{})
	return (&clientConn{relay: r, route: t}).serve(ctx, t.Client)
}

// ServeTLS ends TLS and serves the HTTP inside until the connection ends, or ctx. It returns an error if
// the program's handshake fails, which it does when SNI is not the name. Towards the name there is TLS
// again, with the real certificate verified: if that fails, each request is answered 502.
//
// What it does not see: frames of WebSockets (secrets are put into the handshake only, and nothing is
// redacted behind it), messages that gRPC compressed, and a value that the name's server gives back
// in a form that the Redactor does not know, for instance in pieces over several answers.
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
