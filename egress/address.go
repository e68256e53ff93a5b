package egress

import "net/netip"

// addressKind is a special-purpose part of the address space, not of the public internet.
type addressKind struct {
	prefix  netip.Prefix
	is      string // description: "it is at 10.1.2.3, ..."
	secrets bool   // a service there returns secrets to any client: only its exact address permits it
	within  int    // offset of an embedded IPv4 address; 0 if there is none
}

const (
	private   = "a private network (RFC 1918)"
	metadata  = "where machines tell about themselves (cloud metadata)"
	linkLocal = "an address of one cable only (link-local)"
	standIn   = "an address that stands for one of IPv4"
	unused    = "an address that is not given out to anyone"
)

// addressKinds follows IANA's registries of special addresses, except for public services (AS112, AMT). The narrowest
// matching kind counts.
// https://www.iana.org/assignments/iana-ipv4-special-registry
// https://www.iana.org/assignments/iana-ipv6-special-registry
//
// Addresses for documentation (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24, 2001:db8::/32, 3fff::/20) are left out:
// they have no owner who could be harmed, and private test networks use them.
//
// A NAT64 network with a prefix of its own (RFC 6052) can't be recognized from the outside: it has to block private
// addresses itself.
var addressKinds = []addressKind{
	{prefix: mustPrefix("0.0.0.0/8"), is: "this machine (0.0.0.0/8)"},
	{prefix: mustPrefix("10.0.0.0/8"), is: private},
	{prefix: mustPrefix("100.64.0.0/10"), is: "a network of a provider's own (RFC 6598)"},
	{prefix: mustPrefix("127.0.0.0/8"), is: "this machine (loopback)"},
	{prefix: mustPrefix("169.254.0.0/16"), is: linkLocal},
	{prefix: mustPrefix("172.16.0.0/12"), is: private},
	{prefix: mustPrefix("192.0.0.0/24"), is: "set aside for protocols (RFC 6890)"},
	{prefix: mustPrefix("192.88.99.0/24"), is: "a relay to IPv6 (RFC 7526)"},
	{prefix: mustPrefix("192.168.0.0/16"), is: private},
	{prefix: mustPrefix("198.18.0.0/15"), is: "a network for measurements (RFC 2544)"},
	{prefix: mustPrefix("224.0.0.0/4"), is: "a group of machines (multicast)"},
	{prefix: mustPrefix("240.0.0.0/4"), is: "reserved, or all machines (broadcast)"},

	{prefix: mustPrefix("100.100.100.200/32"), is: metadata, secrets: true}, // Alibaba
	{prefix: mustPrefix("168.63.129.16/32"), is: metadata, secrets: true},   // Azure's wire server
	{prefix: mustPrefix("169.254.0.23/32"), is: metadata, secrets: true},    // Tencent
	{prefix: mustPrefix("169.254.42.42/32"), is: metadata, secrets: true},   // Scaleway
	{prefix: mustPrefix("169.254.169.0/24"), is: metadata, secrets: true},   // nearly all: .254 is the one
	{prefix: mustPrefix("169.254.170.0/24"), is: metadata, secrets: true},   // credentials of containers, AWS
	{prefix: mustPrefix("192.0.0.192/32"), is: metadata, secrets: true},     // Oracle

	// The public IPv6 internet is 2000::/3.
	{prefix: mustPrefix("::/3"), is: unused},
	{prefix: mustPrefix("4000::/2"), is: unused},
	{prefix: mustPrefix("8000::/1"), is: unused},
	{prefix: mustPrefix("::/96"), is: standIn + " (RFC 4291)", within: 12},
	{prefix: mustPrefix("::/127"), is: "this machine (loopback)"}, // ::1, and :: is taken for it
	{prefix: mustPrefix("::1/128"), is: "this machine (loopback)"},
	{prefix: mustPrefix("64:ff9b::/96"), is: standIn + " (NAT64)", within: 12},
	{prefix: mustPrefix("64:ff9b:1::/48"), is: standIn + " (NAT64)", within: 12},
	{prefix: mustPrefix("100::/64"), is: "where nothing is (RFC 6666)"},
	{prefix: mustPrefix("2001::/23"), is: "set aside for protocols (RFC 2928)"},
	{prefix: mustPrefix("2001::/32"), is: standIn + " (Teredo)"},
	{prefix: mustPrefix("2002::/16"), is: standIn + " (6to4)", within: 2},
	{prefix: mustPrefix("5f00::/16"), is: "inside a provider's network (RFC 9602)"},
	{prefix: mustPrefix("fc00::/7"), is: "a private network (RFC 4193)"},
	{prefix: mustPrefix("fe80::/10"), is: linkLocal},
	{prefix: mustPrefix("fec0::/10"), is: "a private network (RFC 3879)"},
	{prefix: mustPrefix("ff00::/8"), is: "a group of machines (multicast)"},

	{prefix: mustPrefix("fd00:42::42/128"), is: metadata, secrets: true},     // Scaleway
	{prefix: mustPrefix("fd00:ec2::/32"), is: metadata, secrets: true},       // AWS
	{prefix: mustPrefix("fd20:ce::254/128"), is: metadata, secrets: true},    // Google
	{prefix: mustPrefix("fe80::a9fe:a9fe/128"), is: metadata, secrets: true}, // OpenStack
}

func mustPrefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

// kindOf returns the narrowest kind of an address, or nil for a public address. An IPv4-mapped address
// (::ffff:10.0.0.1) has the kind of the IPv4 address.
func kindOf(a netip.Addr) *addressKind {
	a = a.Unmap().WithZone("")
	var found *addressKind
	for i := range addressKinds {
		if k := &addressKinds[i]; k.prefix.Contains(a) && (found == nil || k.prefix.Bits() > found.prefix.Bits()) {
			found = k
		}
	}
	return found
}

// includes reports whether a network has an address in any form: an IPv4 address is also reachable as IPv6 with it
// embedded, and a network may be written as either.
func includes(n netip.Prefix, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if k := kindOf(a); k != nil && k.within != 0 && !n.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[k.within:]))
	}
	if n.Contains(a) || !a.Is4() {
		return n.Contains(a)
	}
	nat64, old := netip.MustParseAddr("64:ff9b::").As16(), a.As4()
	copy(nat64[12:], old[:])
	return n.Contains(netip.AddrFrom16(a.As16())) || n.Contains(netip.AddrFrom16(nat64))
}
