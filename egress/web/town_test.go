package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/egress"
	"github.com/sandboxmcp/sandboxmcp/egress/tlstest"
)

// town has web servers on loopback, and names for them.
type town struct {
	t         *testing.T
	authority *tlstest.Authority

	state func(net.Conn, http.ConnState) // receives the states of connections to servers that start later

	mu    sync.Mutex
	names map[string][]netip.Addr
	allow []string
	deny  []string
}

func newTown(t *testing.T) *town {
	t.Helper()
	return &town{t: t, authority: tlstest.New(t, "town"), names: map[string][]netip.Addr{}}
}

// LookupNetIP implements egress.Resolver. A name with several addresses alternates between them.
func (w *town) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	host = strings.TrimSuffix(host, ".")
	all := w.names[host]
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(all) > 1 {
		w.names[host] = all[1:]
	}
	return all[:1], nil
}

func (w *town) name(host string, addrs ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addrs {
		w.names[host] = append(w.names[host], netip.MustParseAddr(a))
	}
}

// http serves a name, and returns its address.
func (w *town) http(host string, h http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = w.state
	s.Start()
	w.t.Cleanup(s.Close)
	return "http://" + w.serveAt(host, s.Listener)
}

// https serves a name over TLS with HTTP/2, with a certificate that is valid for the names in good.
func (w *town) https(host string, h http.HandlerFunc, good ...string) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = w.state
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{w.authority.Sign(x509.Certificate{DNSNames: good})}}
	s.StartTLS()
	w.t.Cleanup(s.Close)
	return "https://" + w.serveAt(host, s.Listener)
}

func (w *town) serveAt(host string, l net.Listener) string {
	w.name(host, "127.0.0.1")
	at := fmt.Sprintf("%s:%d", host, l.Addr().(*net.TCPAddr).Port)
	w.allow = append(w.allow, at)
	return at
}

func (w *town) policy() egress.Policy {
	p, err := egress.NewPolicy(w.allow, w.deny)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// client returns a client that reaches loopback, and keeps 1 MiB of a body.
func (w *town) client() *Client {
	return NewClient(Config{Dialer: &egress.Dialer{Resolver: w, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Roots: w.authority.Pool(), MaxBytes: 1 << 20})
}

func (w *town) fetchPage(address string) (*Response, *Trip, error) {
	trip := &Trip{}
	r, err := w.client().Get(w.t.Context(), trip, w.policy(), address)
	return r, trip, err
}
