package egresstest

import "net/netip"

// Documentation addresses count as public. Packets to them never leave the namespaces.
const (
	gateway    = "198.51.100.2" // the internet's end of the host's cable
	host       = "198.51.100.1" // the host's own end
	gateway6   = "2001:db8:98::2"
	host6      = "2001:db8:98::1"
	nameServer = "203.0.113.53"
)

// site is a name and its addresses.
type site struct {
	name    string
	addrs   []string
	rotates bool   // answers with alternating addresses
	alias   string // of another site
}

// good are names whose servers may be reached.
var good = []site{
	{name: "example.test", addrs: []string{"203.0.113.10"}},
	{name: "v6.test", addrs: []string{"2001:db8:99::10"}},
	{name: "both.test", addrs: []string{"203.0.113.16", "2001:db8:99::16"}},
	{name: "alias.test", alias: "example.test"},
	{name: "front.test", addrs: []string{"203.0.113.12"}},
	{name: "echo.test", addrs: []string{"203.0.113.14"}},
	{name: "exact.example", addrs: []string{"203.0.113.15"}},
	{name: "db.example.test", addrs: []string{"203.0.113.20"}},
	{name: "ssh.example.test", addrs: []string{"203.0.113.21"}},
	{name: "git.example.test", addrs: []string{"203.0.113.22"}},
	{name: "pypi.example.test", addrs: []string{"203.0.113.23"}},
	{name: "npm.example.test", addrs: []string{"203.0.113.24"}},
}

// others exist as well, but are not allowed.
var others = []site{
	{name: "other.example", addrs: []string{"203.0.113.11"}},
	{name: "sub.example.test", addrs: []string{"203.0.113.11"}},
	{name: "hidden.test", addrs: []string{"203.0.113.12"}}, // at the same address as front.test
	{name: "smuggled.test", addrs: []string{"203.0.113.12"}},
	{name: "evil.test", addrs: []string{"203.0.113.13"}},
}

// bad are names that people may allow in good faith, and whose addresses are not what they expect.
var bad = []site{
	{name: "private.example", addrs: []string{"10.9.0.9"}},
	{name: "private172.example", addrs: []string{"172.16.9.9"}},
	{name: "private192.example", addrs: []string{"192.168.9.9"}},
	{name: "metadata.example", addrs: []string{"169.254.169.254"}},
	{name: "metadata6.example", addrs: []string{"fd00:ec2::254"}},
	{name: "alibaba.example", addrs: []string{"100.100.100.200"}},
	{name: "cgnat.example", addrs: []string{"100.64.0.9"}},
	{name: "loopback.example", addrs: []string{"127.0.0.1"}},
	{name: "loopback127.example", addrs: []string{"127.9.9.9"}},
	{name: "loopback6.example", addrs: []string{"::1"}},
	{name: "zero.example", addrs: []string{"0.0.0.0"}},
	{name: "zero6.example", addrs: []string{"::"}},
	{name: "thisnet.example", addrs: []string{"0.9.9.9"}},
	{name: "host.example", addrs: []string{host}},
	{name: "host6.example", addrs: []string{host6}},
	{name: "multicast.example", addrs: []string{"224.0.0.9"}},
	{name: "reserved.example", addrs: []string{"240.0.0.9"}},
	{name: "broadcast.example", addrs: []string{"255.255.255.255"}},
	{name: "benchmark.example", addrs: []string{"198.18.0.9"}},
	{name: "mapped.example", addrs: []string{"::ffff:10.9.0.9"}},
	{name: "compatible.example", addrs: []string{"::10.9.0.9"}},
	{name: "nat64.example", addrs: []string{"64:ff9b::10.9.0.9"}},
	{name: "nat64local.example", addrs: []string{"64:ff9b:1::10.9.0.9"}},
	{name: "sixtofour.example", addrs: []string{"2002:0a09:0009::1"}},
	{name: "teredo.example", addrs: []string{"2001:0:c633:6402::1"}},
	{name: "ula.example", addrs: []string{"fd00:9::9"}},
	{name: "sitelocal.example", addrs: []string{"fec0::9"}},
	{name: "linklocal6.example", addrs: []string{"fe80::9"}},
	{name: "multicast6.example", addrs: []string{"ff02::9"}},
	{name: "cname.example", alias: "private.example"},
	{name: "hostsfile.example", addrs: nil}, // in the host's hosts file
	{name: "mixed.example", addrs: []string{"203.0.113.30", "10.9.0.9"}},
	{name: "mixed2.example", addrs: []string{"10.9.0.9", "203.0.113.32"}},
	{name: "rebind.example", addrs: []string{"203.0.113.31", "10.9.0.9", "169.254.169.254", "127.0.0.1"}, rotates: true},
}

var allSites = append(append(append([]site{}, good...), others...), bad...)

func namesOf(sites []site) (names []string) {
	for _, s := range sites {
		names = append(names, s.name)
	}
	return names
}

// serverAt names the server that answers at an address: the first that has it.
func serverAt(addr netip.Addr) string {
	for _, s := range allSites {
		for _, a := range s.addrs {
			if netip.MustParseAddr(a) == addr {
				return s.name
			}
		}
	}
	return addr.String()
}
