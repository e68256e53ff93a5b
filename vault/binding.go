package vault

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Binding names the hosts that a secret may be sent to. The zero value binds to nothing: the program itself gets the
// value, and may send it anywhere. The program of a bound secret has a placeholder, which the relay replaces by the
// value outside the sandbox, in requests to one of the hosts.
type Binding struct {
	// Hosts are patterns, such as api.example.com, *.example.com or example.com:8443. This package
	// does not interpret them: the caller that stores them checks them.
	Hosts []string

	Require bool // a request to one of the hosts that does not carry the placeholder is refused
	Body    bool // the placeholder is exchanged in a request's body, too
}

// Limits of a binding. A DNS name has at most 253 bytes.
const (
	maxHosts = 100
	maxHost  = 300
)

func (b Binding) isBound() bool { return len(b.Hosts) > 0 }

func (b Binding) clone() Binding {
	b.Hosts = slices.Clone(b.Hosts)
	return b
}

// validate refuses a contradictory binding, and a value that can't be sent to its hosts: a line break would end its
// header and begin another one.
func (b Binding) validate(value []byte) error {
	control := func(c byte) bool { return c < ' ' || c == 0x7f }
	switch {
	case !b.isBound() && b.Require:
		return errors.New("without hosts, there are no requests that could require the secret")
	case !b.isBound() && b.Body:
		return errors.New("without hosts, there are no bodies that the secret could be put into")
	case len(b.Hosts) > maxHosts:
		return fmt.Errorf("it is bound to %d hosts, more than %d", len(b.Hosts), maxHosts)
	case b.isBound() && !b.Body && slices.ContainsFunc(value, control):
		return errors.New("a value with a line break or another control character can't stand in a request's header or address")
	}
	for _, h := range b.Hosts {
		if h == "" || len(h) > maxHost || strings.IndexFunc(h, func(r rune) bool { return r <= ' ' || r == 0x7f }) >= 0 {
			return fmt.Errorf("%.40q is not a host", h)
		}
	}
	return nil
}

// Bound is a leased secret that is bound to hosts.
type Bound struct {
	Name string
	// Placeholder stands for the value in the program: at least 40 letters, digits and _, which can't be
	// guessed and need no escaping in headers, addresses and JSON. Each lease has another one.
	Placeholder string
	Binding
	Header string // header that carries the value in each request to the hosts, in place of the program's own; "" is none

	// Value returns the value, and "" once the lease is closed. The string is a copy that Close can't wipe:
	// keep no reference. It is a function because printers, loggers and dumpers don't read closures.
	Value func() string `json:"-"`
}

// placeholderSize is the number of random bytes in a placeholder: too many to try all.
const placeholderSize = 20

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newPlaceholder returns a random placeholder. Its prefix tells people where it comes from.
func newPlaceholder() string {
	random := make([]byte, placeholderSize)
	rand.Read(random) // never fails
	return "sandboxmcp_" + lowerBase32.EncodeToString(random)
}

// Bound returns the bound secrets in the order of the request.
func (l *Lease) Bound() []Bound {
	if l.isEmpty() {
		return nil
	}
	var all []Bound
	in := l.inner()
	for i, s := range in.secrets {
		if s.to.isBound() {
			all = append(all, Bound{s.name, s.placeholder, s.to.clone(), s.header, func() string { return in.value(i) }})
		}
	}
	return all
}

// value returns a copy of the value of secret i, "" after Close.
func (in *leased) value(i int) string {
	in.mu.RLock()
	defer in.mu.RUnlock()
	if in.closed {
		return ""
	}
	return string(in.secrets[i].value)
}

// Bound returns the bound secrets of all leases.
func (ls Leases) Bound() []Bound {
	var bound []Bound
	for _, l := range ls {
		bound = append(bound, l.Bound()...)
	}
	return bound
}

// MayBind reports whether any secret may be bound to hosts, at little cost. false is certain.
func (v *Vault) MayBind() bool {
	if v == nil {
		return false
	}
	return slices.ContainsFunc(v.stores, func(s Store) bool {
		b, tells := s.(bindingStore)
		return !tells || b.mayBind()
	})
}

// bindingStore is implemented by stores that can tell whether they hold a bound secret.
type bindingStore interface{ mayBind() bool }

func (environment) mayBind() bool { return false }
func (*Memory) mayBind() bool     { return false }
