package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// ParseNetwork parses a non-public network to which names may resolve: "10.0.0.0/8", "192.168.1.0/24",
// "fd12:3456::/32", or one address. It must be of one kind: a network that includes public addresses is an error, since
// they need no permission. A single public address is valid, in case it is this machine's own.
func ParseNetwork(text string) (netip.Prefix, error) {
	n, err := netip.ParsePrefix(text)
	if err != nil {
		a, err := netip.ParseAddr(text)
		switch {
		case err != nil || strings.Contains(text, "/"):
			return netip.Prefix{}, fmt.Errorf("%s is not a network: write an address, or a network such as 10.0.0.0/8", quote(text))
		case a.Zone() != "":
			return netip.Prefix{}, fmt.Errorf("%s has a zone: remove the %% and the rest", quote(text))
		}
		n = netip.PrefixFrom(a, a.BitLen())
	}
	if n.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%s is a network of IPv4: write it as one", text)
	}
	if n != n.Masked() {
		return netip.Prefix{}, fmt.Errorf("%s is not a network: write %s, or only the address", text, n.Masked())
	}
	return n, checkOneKind(n)
}

// documentationNetworks are the networks that addressKinds leaves out, and that test networks may use.
var documentationNetworks = []netip.Prefix{
	mustPrefix("192.0.2.0/24"), mustPrefix("198.51.100.0/24"), mustPrefix("203.0.113.0/24"), mustPrefix("2001:db8::/32"),
	mustPrefix("3fff::/20"),
}

func checkOneKind(n netip.Prefix) error {
	inside := func(of netip.Prefix) bool { return of.Bits() <= n.Bits() && of.Contains(n.Addr()) }
	if n.IsSingleIP() || slices.ContainsFunc(documentationNetworks, inside) {
		return nil
	}
	if !slices.ContainsFunc(addressKinds, func(k addressKind) bool { return inside(k.prefix) }) {
		return fmt.Errorf("%s contains public addresses, which need no entry: name the private networks", n)
	}
	for _, k := range addressKinds {
		if k.prefix.Bits() > n.Bits() && n.Contains(k.prefix.Addr()) && !k.secrets {
			return fmt.Errorf("%s is more than one network: name each of them", n)
		}
	}
	return nil
}

// RefusalOf returns the reason why the dialer refuses an address, or "".
func (d *Dialer) RefusalOf(a netip.Addr) string {
	if a.Zone() != "" || !a.IsValid() {
		return linkLocal
	}
	a = a.Unmap()
	k := kindOf(a)
	named := slices.ContainsFunc(d.Networks, func(n netip.Prefix) bool {
		return n.Contains(a) && (k == nil || !k.secrets || n.Bits() >= k.prefix.Bits())
	})
	switch {
	case named && k != nil && k.within != 0:
		b := a.As16()
		old := netip.AddrFrom4([4]byte(b[k.within:]))
		if why := d.RefusalOf(old); why != "" {
			return fmt.Sprintf("which stands for %s, %s", old, why)
		}
		return ""
	case named:
		return ""
	case k != nil:
		return k.is
	}
	switch mine, err := d.own.has(a); {
	case err != nil:
		return "which may be this machine's own: its interfaces can't be read"
	case mine:
		return "an address of this machine"
	}
	return ""
}

// machineAddressesAge is the maximum age of the list of this machine's addresses.
const machineAddressesAge = 3 * time.Second

// machineAddresses caches the addresses of this machine: a service that listens on all of them must not be reachable by
// a public one if it is not by 127.0.0.1. Public addresses that a router translates to this machine are unknown.
type machineAddresses struct {
	mu   sync.Mutex
	read time.Time
	list []netip.Prefix
	err  error
}

func (o *machineAddresses) has(a netip.Addr) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); o.read.IsZero() || now.Sub(o.read) > machineAddressesAge {
		o.list, o.err = interfacePrefixes()
		o.read = now
	}
	return slices.ContainsFunc(o.list, func(n netip.Prefix) bool { return n.Contains(a) }), o.err
}

// interfacePrefixes returns this machine's addresses. On a loopback interface, Linux treats the whole network of an
// address as this machine.
func interfacePrefixes() ([]netip.Prefix, error) {
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	all, err := net.InterfaceAddrs() // one call for all links: there may be hundreds
	if err != nil {
		return nil, err
	}
	own := len(all)
	for _, link := range links {
		if link.Flags&net.FlagLoopback == 0 {
			continue
		}
		more, err := link.Addrs()
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	var list []netip.Prefix
	for i, addr := range all {
		n, err := netip.ParsePrefix(addr.String())
		if err != nil {
			return nil, fmt.Errorf("an interface has the address %s: %w", addr, err)
		}
		if i < own {
			n = netip.PrefixFrom(n.Addr(), n.Addr().BitLen())
		}
		list = append(list, n)
	}
	return list, nil
}
