package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Resolver resolves names, as *net.Resolver does. It is called concurrently, with names that end with a dot, and must
// return when ctx ends.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// NewResolver returns a resolver that asks the DNS server at an address ("10.0.0.2", "[fd00::2]:5353"; port 53 if it
// has none) about names that are not in this machine's hosts file.
func NewResolver(address string) *net.Resolver {
	if a, err := netip.ParseAddr(address); err == nil {
		address = netip.AddrPortFrom(a, 53).String()
	}
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

const (
	cacheFound     = 5 * time.Second  // lifetime of cached addresses, regardless of their TTL
	cacheNotFound  = time.Second      // lifetime of a cached failure
	resolveTimeout = 10 * time.Second // for an answer; longer than the five seconds after which a resolver tries the next server
	maxAddresses   = 64               // of a name; a DNS message can have thousands
)

// Blocked is the error for a name whose addresses are all refused.
type Blocked struct {
	Name      string
	Addr      netip.Addr // the first of them
	Why       string     // description of the address
	BySandbox bool       // the sandbox's own rules deny the address
}

func (b *Blocked) Error() string {
	entry := "the network"
	if k := kindOf(b.Addr); k == nil || k.secrets {
		entry = "this very address" // a wider network does not permit it
	}
	if b.BySandbox {
		return fmt.Sprintf("%s is at %s, which the sandbox's own rules deny", b.Name, b.Addr)
	}
	return fmt.Sprintf("%s is at %s, %s: the operator can name %s in egress.networks of the configuration to allow it", b.Name, b.Addr, b.Why,
		entry)
}

// resolve returns the permitted addresses of a canonical name, at least one, cached for up to 5 seconds. If all
// addresses are refused, the error is a *Blocked.
func (d *Dialer) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	all, err := d.lookupCached(ctx, host)
	if err != nil {
		return nil, err
	}
	var good []netip.Addr
	var blocked *Blocked
	for _, a := range all {
		if why := d.RefusalOf(a); why == "" {
			good = append(good, a)
		} else if blocked == nil {
			blocked = &Blocked{Name: host, Addr: a, Why: why}
		}
	}
	if len(good) == 0 {
		return nil, blocked
	}
	return good, nil
}

// lookupCached returns all addresses of a name, allowed and refused ones. Concurrent calls for a name share one lookup.
func (d *Dialer) lookupCached(ctx context.Context, name string) (addrs []netip.Addr, err error) {
	if addrs, known := d.lookups.Get(name, cacheFound); known {
		return addrs, nil
	}
	if err, known := d.failed.Get(name, cacheNotFound); known {
		return nil, err
	}
	switch addrs, err = d.lookupName(ctx, name); {
	case err == nil:
		d.lookups.Store(name, addrs)
	case ctx.Err() == nil:
		d.failed.Store(name, err)
	}
	return addrs, err
}

// hostsFile resolves only the names in this machine's hosts file, in which net finds a single label only without the
// final dot.
var hostsFile = net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}}

// lookupName queries the resolver. The final dot disables the machine's search list.
func (d *Dialer) lookupName(ctx context.Context, name string) ([]netip.Addr, error) {
	var r Resolver = net.DefaultResolver
	if d.Resolver != nil {
		r = d.Resolver
	}
	short, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var all []netip.Addr
	var err error
	if _, system := r.(*net.Resolver); system && !strings.Contains(name, ".") {
		all, _ = hostsFile.LookupNetIP(short, "ip", name)
	}
	if len(all) == 0 {
		all, err = r.LookupNetIP(short, "ip", name+".")
	}
	var addrs []netip.Addr
	for _, a := range all {
		if a = a.Unmap(); a.IsValid() && len(addrs) < maxAddresses && !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	var dns *net.DNSError
	switch {
	case err == nil && len(addrs) > 0:
		return addrs, nil
	case ctx.Err() != nil:
		return nil, timeoutError(ctx, name)
	case err == nil, errors.As(err, &dns) && dns.IsNotFound:
		return nil, fmt.Errorf("%s does not exist, or has no address", name)
	case short.Err() != nil, dns != nil && dns.IsTimeout:
		return nil, fmt.Errorf("%s: the resolver did not answer", name)
	case dns != nil:
		return nil, fmt.Errorf("%s: the resolver failed: %s", name, printableLine(dns.Err))
	}
	return nil, fmt.Errorf("%s: the resolver failed: %s", name, printableLine(err.Error()))
}

// timeoutError returns the error for a ctx that ended before an answer.
func timeoutError(ctx context.Context, name string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: the resolver did not answer in time", name)
	}
	return fmt.Errorf("look up %s: %w", name, ctx.Err())
}
