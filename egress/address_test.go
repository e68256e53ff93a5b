package egress

import (
	"net/netip"
	"strings"
	"testing"
)

// TestSpecial has addresses by kind: the ends of each range, their neighbours, and the usual addresses of attacks
// on proxies.
func TestSpecial(t *testing.T) {
	tests := []struct{ is, addrs string }{
		{"", `1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
			168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255
			192.0.1.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255
			192.31.196.1 192.52.193.1 192.175.48.1 192.0.32.7 151.101.1.140 20.205.243.166`},
		{"", `192.0.2.0 192.0.2.255 198.51.100.1 203.0.113.7 2001:db8::1 2001:db8:ffff:: 3fff::1`}, // documentation
		{"", `2000:: 2001:200:: 2001:4860:4860::8888 2003:: 2600::1 2606:4700::1111 2a00:1450:4001::1
			2a02:26f0::1 2c0f:: 3ffe:ffff:: 2620:4f:8000::1 ::ffff:8.8.8.8 ::ffff:203.0.113.1 2600:1f00::7f00:1 2606:4700:0:ffff::a00:1`},
		{"this machine", `0.0.0.0 0.0.0.1 0.1.2.3 0.255.255.255 127.0.0.0 127.0.0.1 127.0.0.53 127.1.1.1 127.255.255.255
			:: ::1 0:0:0:0:0:0:0:1 ::ffff:127.0.0.1 ::ffff:7f00:1 0:0:0:0:0:ffff:7f00:0001 ::ffff:0.0.0.0 ::ffff:0:0 ::ffff:127.255.255.254`},
		{"a private network", `10.0.0.0 10.0.0.1 10.1.2.3 10.96.0.1 10.255.255.255 172.16.0.0 172.16.0.1 172.17.0.1 172.31.255.255
			192.168.0.0 192.168.0.1 192.168.1.254 192.168.255.255 ::ffff:10.0.0.1 ::ffff:a00:1 ::ffff:172.16.0.1 ::ffff:192.168.1.1 ::ffff:c0a8:101
			fc00:: fc00::1 fd00::1 fd00::2 fd12:3456:789a::1 fd7a:115c:a1e0::1 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
			fec0:: fec0::1 fec0:0:0:ffff::1 feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff`},
		{"of a provider's own", `100.64.0.0 100.64.0.1 100.100.100.100 100.100.100.199 100.100.100.201 100.127.255.255 ::ffff:100.64.0.1`},
		{"tell about themselves", `169.254.169.254 169.254.169.253 169.254.169.250 169.254.169.123 169.254.170.2 169.254.170.23 169.254.0.23
			169.254.42.42 100.100.100.200 168.63.129.16 192.0.0.192 ::ffff:169.254.169.254 ::ffff:a9fe:a9fe ::ffff:168.63.129.16
			::ffff:6464:64c8 ::ffff:192.0.0.192 fd00:ec2::254 fd00:ec2::253 fd00:ec2::23 fd20:ce::254 fd00:42::42 fe80::a9fe:a9fe`},
		{"one cable", `169.254.0.0 169.254.0.1 169.254.10.10 169.254.255.255 fe80:: fe80::1 fe80::fc:ff:fe00:1
			febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff ::ffff:169.254.1.1 fe80::1%eth0 fe80::1%1`},
		{"set aside for protocols", `192.0.0.0 192.0.0.1 192.0.0.8 192.0.0.9 192.0.0.10 192.0.0.170 192.0.0.171 192.0.0.255
			2001:1::1 2001:1::2 2001:1::3 2001:2::1 2001:3::1 2001:4:112::1 2001:10::1 2001:20::1 2001:30::1 2001:1ff:ffff::`},
		{"relay to IPv6", `192.88.99.0 192.88.99.1 192.88.99.2 192.88.99.255`},
		{"measurements", `198.18.0.0 198.18.0.1 198.19.255.255 ::ffff:198.18.0.1`},
		{"multicast", `224.0.0.0 224.0.0.1 224.0.0.251 232.1.1.1 239.255.255.250 239.255.255.255 ff00:: ff01::1 ff02::1 ff02::fb ff05::1:3 ff0e::1
			ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ::ffff:224.0.0.1`},
		{"broadcast", `240.0.0.0 240.0.0.1 250.1.2.3 255.255.255.254 255.255.255.255 ::ffff:255.255.255.255 ::ffff:ffff:ffff`},
		{"(RFC 4291)", `::2 ::7f00:1 ::127.0.0.1 ::10.0.0.1 ::169.254.169.254 ::a9fe:a9fe ::8.8.8.8 ::ffff`},
		{"(NAT64)", `64:ff9b:: 64:ff9b::7f00:1 64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::8.8.8.8 64:ff9b::ffff:ffff
			64:ff9b:1:: 64:ff9b:1::a00:1 64:ff9b:1:a00:0:100::  64:ff9b:1:ffff:ffff:ffff:ffff:ffff`},
		{"(6to4)", `2002:: 2002:7f00:1:: 2002:7f00:1::1 2002:a00:1:: 2002:a9fe:a9fe:: 2002:c0a8:101::1 2002:808:808:: 2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff`},
		{"(Teredo)", `2001:: 2001::1 2001:0:7f00:1:: 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:0:ffff:ffff:ffff:ffff:ffff:ffff`},
		{"where nothing is", `100:: 100::1 100::ffff:ffff:ffff:ffff`},
		{"inside a provider's network", `5f00:: 5f00::1 5f00:ffff::`},
		{"not given out", `::fffe:7f00:1 ::1:0:7f00:1 ::ffff:0:7f00:1 ::ffff:0:127.0.0.1 ::5efe:10.0.0.1 64:ff9a::1 64:ff9b:0:0:0:1:: 64:ff9b:2::
			100:0:0:1::1 200::1 201:db8::1 400::1 1000:: 1fff:: 4000:: 5eff:: 5f01:: 6000:: 8000:: a000:: c000:: e000:: f000:: fbff:: fe00:: fe7f::`},
	}
	n := 0
	for _, tt := range tests {
		for _, text := range strings.Fields(tt.addrs) {
			n++
			a := netip.MustParseAddr(text)
			is := ""
			if k := kindOf(a); k != nil {
				is = k.is
			}
			if (is == "") != (tt.is == "") || !strings.Contains(is, tt.is) {
				t.Errorf("%s: got %q, want %q", text, is, tt.is)
			}
			if public(a) != (tt.is == "") {
				t.Errorf("%s: public: %v", text, public(a))
			}
			zero := &Dialer{}
			if why := zero.RefusalOf(a); (why == "") != (tt.is == "") {
				// This machine may have one of the documentation addresses.
				if mine, _ := zero.own.has(a); !mine {
					t.Errorf("%s: the dialer says %q", text, why)
				}
			}
		}
	}
	if n < 250 {
		t.Errorf("only %d addresses", n)
	}
	if (&Dialer{}).RefusalOf(netip.Addr{}) == "" || (&Dialer{}).RefusalOf(netip.MustParseAddr("2600::1%eth0")) == "" || public(netip.Addr{}) ||
		public(netip.MustParseAddr("2600::1%eth0")) {
		t.Error("an invalid address is public")
	}
}

// TestEveryAddress checks one address of every IPv4 /16 against independently written ranges.
func TestEveryAddress(t *testing.T) {
	for hi := range 256 {
		for lo := range 256 {
			a := netip.AddrFrom4([4]byte{byte(hi), byte(lo), 77, 77})
			want := hi != 0 && hi != 10 && hi != 127 && hi < 224 &&
				!(hi == 100 && lo >= 64 && lo < 128) && !(hi == 169 && lo == 254) && !(hi == 172 && lo >= 16 && lo < 32) &&
				!(hi == 192 && lo == 168) && !(hi == 198 && (lo == 18 || lo == 19))
			mapped := netip.AddrFrom16(a.As16())
			if public(a) != want || public(mapped) != want {
				t.Errorf("%s: got %v, and %v mapped; want %v", a, public(a), public(mapped), want)
			}
		}
	}
}

// FuzzAddress compares the table with net/netip's predicates.
func FuzzAddress(f *testing.F) {
	f.Add([]byte{10, 0, 0, 1})
	f.Add([]byte("\x00\x64\xff\x9b\x00\x00\x00\x00\x00\x00\x00\x00\x7f\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		u := a.Unmap()
		local := u.IsLoopback() || u.IsPrivate() || u.IsMulticast() || u.IsLinkLocalUnicast() || u.IsUnspecified() ||
			u == netip.AddrFrom4([4]byte{255, 255, 255, 255})
		if public(a) && (local || !u.IsGlobalUnicast()) {
			t.Errorf("%s is public", a)
		}
		if public(a) && u.Is6() && b[0]>>5 != 1 {
			t.Errorf("%s is public, outside of 2000::/3", a)
		}
		if public(a) != public(u) {
			t.Errorf("%s is two things", a)
		}
	})
}

// public reports whether an address is public, or for documentation.
func public(a netip.Addr) bool { return a.IsValid() && a.Zone() == "" && kindOf(a) == nil }

// TestIncludes: a denied network includes each spelling of its addresses.
func TestIncludes(t *testing.T) {
	for _, tt := range []struct {
		network, address string
		want             bool
	}{
		{"8.8.8.0/24", "8.8.8.8", true}, {"8.8.8.0/24", "8.8.9.8", false}, {"8.8.8.0/24", "::ffff:8.8.8.8", true},
		{"8.8.8.0/24", "64:ff9b::8.8.8.8", true},
		{"8.8.8.0/24", "64:ff9b::8.8.9.8", false}, {"8.8.8.0/24", "2002:808:808::1", true}, {"::ffff:8.8.8.0/120", "8.8.8.8", true},
		{"::ffff:8.8.8.0/120", "8.8.9.8", false},
		{"::ffff:8.8.8.0/120", "64:ff9b::8.8.8.8", true}, {"64:ff9b::808:800/120", "8.8.8.8", true}, {"64:ff9b::808:800/120", "8.8.9.8", false},
		{"::/0", "8.8.8.8", true},
		{"64:ff9b::/96", "64:ff9b::1.2.3.4", true}, {"2001:db8::/32", "2001:db8::1", true}, {"2001:db8::/32", "8.8.8.8", false},
		{"0.0.0.0/0", "2001:4860::1", false},
	} {
		if got := includes(netip.MustParsePrefix(tt.network), netip.MustParseAddr(tt.address)); got != tt.want {
			t.Errorf("%s of %s: got %v", tt.address, tt.network, got)
		}
	}
}
