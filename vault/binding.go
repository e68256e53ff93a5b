package vault

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Binding says where a secret may go. The zero value binds it to nothing: the program itself gets
// the value, and may send it wherever it can. A bound secret's program sees a placeholder, which is
// exchanged for the value outside the sandbox, on its way to one of the hosts.
type Binding struct {
	// Hosts are patterns, such as api.example.com, *.example.com or example.com:8443. This package
	// does not know what they mean: whoever stores them checks them.
	Hosts []string

	Require bool // a request to one of the hosts that does not carry the placeholder is refused
	Body    bool // the placeholder is exchanged in a request's body, too
}

// maxHosts and maxHost bound what one secret is bound to: a name has at most 253 bytes.
const (
	maxHosts = 100
	maxHost  = 300
)

func (b Binding) bound() bool { return len(b.Hosts) > 0 }

func (b Binding) clone() Binding {
	b.Hosts = slices.Clone(b.Hosts)
	return b
}

// check refuses what can't have been meant, and a value that could not be sent to where it is bound:
// a line break would end the header that it stands in, and begin another one.
func (b Binding) check(value []byte) error {
	control := func(c byte) bool { return c < ' ' || c == 0x7f }
	switch {
	case !b.bound() && b.Require:
		return errors.New("without hosts, there are no requests that could require the secret")
	case !b.bound() && b.Body:
		return errors.New("without hosts, there are no bodies that the secret could be put into")
	case len(b.Hosts) > maxHosts:
		return fmt.Errorf("it is bound to %d hosts, more than %d", len(b.Hosts), maxHosts)
	case b.bound() && !b.Body && slices.ContainsFunc(value, control):
		return errors.New("a value with a line break or another control character can't stand in a request's header or address")
	}
	for _, h := range b.Hosts {
		if h == "" || len(h) > maxHost || strings.IndexFunc(h, func(r rune) bool { return r <= ' ' || r == 0x7f }) >= 0 {
			return fmt.Errorf("%.40q is no host", h)
		}
	}
	return nil
}

// Bound is a bound secret that is lent.
type Bound struct {
	Name string
	// Placeholder is what the program has in the place of the value: at least 40 letters, digits and
	// _, which nobody could guess and which stay as they are in headers, addresses and JSON. It is
	// another one in each lease.
	Placeholder string
	Binding

	// Value returns the value, and "" once the lease is closed. The string is a copy, which Close
	// can't wipe: keep it nowhere. It is a function because no printer, logger or dumper looks into one.
	Value func() string `json:"-"`
}

// placeholderSize is the random bytes of a placeholder: as many as nobody tries through.
const placeholderSize = 20

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newPlaceholder returns a fresh one. Its beginning tells people who meet it where to look.
func newPlaceholder() string {
	random := make([]byte, placeholderSize)
	rand.Read(random) // never fails
	return "sandboxmcp_" + lowerBase32.EncodeToString(random)
}

// Bound returns the bound secrets, in the order in which they were asked for.
func (l *Lease) Bound() []Bound {
	if l.empty() {
		return nil
	}
	var all []Bound
	in := l.inner()
	for i, s := range in.secrets {
		if s.to.bound() {
			all = append(all, Bound{s.name, s.placeholder, s.to.clone(), func() string { return in.value(i) }})
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

// MayBind says whether any secret may be bound to hosts: false means that none is, and costs nothing
// to learn.
func (v *Vault) MayBind() bool {
	if v == nil {
		return false
	}
	return slices.ContainsFunc(v.stores, func(s Store) bool {
		b, tells := s.(binder)
		return !tells || b.mayBind()
	})
}

// binder is what a Store has that can say whether it holds a bound secret at all.
type binder interface{ mayBind() bool }

func (environment) mayBind() bool { return false }
func (*Memory) mayBind() bool     { return false }
