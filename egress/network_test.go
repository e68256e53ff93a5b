package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func networks(t testing.TB, texts ...string) []netip.Prefix {
	t.Helper()
	var all []netip.Prefix
	for _, text := range texts {
		n, err := ParseNetwork(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8": "", "10.1.0.0/16": "", "10.1.2.3": "10.1.2.3/32", "127.0.0.0/8": "", "127.0.0.1/32": "", "192.168.0.0/16": "",
		"172.16.0.0/12": "",
		"100.64.0.0/10": "", "169.254.0.0/16": "", "169.254.169.254": "169.254.169.254/32", "168.63.129.16/32": "", "192.0.0.0/24": "",
		"198.18.0.0/15": "",
		"fc00::/7":      "", "fd00::/8": "", "fd12:3456::/32": "", "fe80::/10": "", "::1": "::1/128", "64:ff9b::/96": "", "200::/7": "",
		"203.0.113.0/24": "", "2001:db8:1::/48": "", "8.8.8.8": "8.8.8.8/32", // allowed in case they are this machine's
	} {
		if want == "" {
			want = text
		}
		got, err := ParseNetwork(text)
		if err != nil || got.String() != want {
			t.Errorf("%s: got %v %v", text, got, err)
		}
	}
	for want, texts := range map[string][]string{
		"which need no entry": {"0.0.0.0/0", "::/0", "8.0.0.0/5", "10.0.0.0/7", "192.0.0.0/8", "172.0.0.0/11", "169.0.0.0/8", "8.8.8.0/24",
			"2000::/3",
			"203.0.112.0/23", "100.0.0.0/8", "126.0.0.0/7", "2600::/16"},
		"more than one network": {"::/3", "8000::/1", "::/8", "::/96", "2001::/23", "fc00::/6", "fe00::/7"},
		"is not a network: write an address": {"", "10", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/08", "/8", "10.0.0.256", "example.com",
			"10.0.0.0-10.0.0.9", "10.*", "*", "0xa.0.0.1",
			"010.0.0.1", " 10.0.0.0/8", "fe80::%eth0/64", "10.0.0.0/8\n", "[::1]", "10.0.0.1:80"},
		"has a zone":              {"fe80::1%eth0"},
		"is a network of IPv4":    {"::ffff:10.0.0.0/104", "::ffff:10.0.0.1", "::ffff:0:0/96"},
		"write 10.0.0.0/8":        {"10.1.2.3/8"},
		"write fd00::/8, or only": {"fd00::1/8"},
	} {
		for _, text := range texts {
			if n, err := ParseNetwork(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: got %v %v, want %q", text, n, err, want)
			}
		}
	}
}

// TestNetworks permits networks, and checks which addresses are reachable.
func TestNetworks(t *testing.T) {
	tests := []struct{ networks, open, shut string }{
		{"", "8.8.8.8 2600::1 203.0.113.77", "10.0.0.1 127.0.0.1 fd00::1"},
		{"10.1.0.0/16", "10.1.2.3 ::ffff:10.1.2.3 8.8.8.8", "10.2.0.1 192.168.0.1 127.0.0.1 64:ff9b::a01:203 2002:a01:203::"},
		{"127.0.0.0/8", "127.0.0.1 127.9.9.9 ::ffff:127.0.0.1", "::1 0.0.0.0 ::"},
		{"127.0.0.1 ::1", "127.0.0.1 ::1", "127.0.0.2 ::"},
		{"169.254.0.0/16", "169.254.1.1", "169.254.169.254 ::ffff:169.254.169.254 169.254.170.2"},
		{"169.254.169.254", "169.254.169.254", "169.254.169.253 169.254.1.1"},
		{"100.64.0.0/10 192.0.0.0/24", "100.64.0.1 100.100.100.100 192.0.0.1", "100.100.100.200 192.0.0.192"},
		{"fd00::/8", "fd00::1 fd00:ec3::254", "fd00:ec2::254 fd20:ce::254 fd00:42::42 fc00::1"},
		{"fd00:ec2::254", "fd00:ec2::254", "fd00:ec2::253"},
		{"64:ff9b::/96", "64:ff9b::8.8.8.8", "64:ff9b::10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::0 10.0.0.1"},
		{"64:ff9b::/96 10.0.0.0/8", "64:ff9b::10.0.0.1 10.0.0.1", "64:ff9b::127.0.0.1"},
		{"64:ff9b:1::/48", "64:ff9b:1::8.8.8.8", "64:ff9b:1::10.0.0.1"},
		{"2002::/16", "2002:808:808::1", "2002:a00:1::1"},
		{"fe80::/10", "fe80::1", "fe80::1%eth0 fe80::a9fe:a9fe"},
	}
	for _, tt := range tests {
		d := &Dialer{Networks: networks(t, strings.Fields(tt.networks)...)}
		for _, text := range strings.Fields(tt.open) {
			if why := d.RefusalOf(netip.MustParseAddr(text)); why != "" {
				t.Errorf("%q: %s is refused: %s", tt.networks, text, why)
			}
		}
		for _, text := range strings.Fields(tt.shut) {
			if d.RefusalOf(netip.MustParseAddr(text)) == "" {
				t.Errorf("%q: %s is open", tt.networks, text)
			}
		}
	}
	d := &Dialer{Networks: networks(t, "64:ff9b::/96")}
	if got, want := d.RefusalOf(netip.MustParseAddr("64:ff9b::a00:1")), "which stands for 10.0.0.1, a private network (RFC 1918)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestOwn: a public address of this machine is refused unless it was named.
func TestOwn(t *testing.T) {
	list, err := interfacePrefixes()
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, n := range list {
		if (&Dialer{}).RefusalOf(n.Addr()) == "" {
			t.Errorf("%s is open", n)
		}
	}
	mine := netip.MustParseAddr("192.0.32.7")
	d := &Dialer{}
	if why := d.RefusalOf(mine); why != "" {
		t.Fatal(why)
	}
	d.own.list = append(d.own.list, netip.PrefixFrom(mine, 32))
	if got, want := d.RefusalOf(mine), "an address of this machine"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	d.Networks = networks(t, mine.String())
	if why := d.RefusalOf(mine); why != "" {
		t.Error(why)
	}
}

func FuzzParseNetwork(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "::/0", "8.0.0.0/5", "fe80::1%25", "::ffff:0:0/96", "10.1.2.3/8", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseNetwork(text)
		if err != nil {
			if s := err.Error(); strings.ContainsAny(s, "\n\x00") || len(s) > 500 {
				t.Errorf("%q", s)
			}
			return
		}
		if again, err := ParseNetwork(n.String()); err != nil || again != n {
			t.Errorf("%s becomes %s, %v", n, again, err)
		}
		if n.IsSingleIP() {
			return
		}
		documents := false
		for _, doc := range documentationNetworks {
			documents = documents || doc.Overlaps(n)
		}
		if public(n.Addr()) != documents {
			t.Errorf("%s contains public addresses", n)
		}
	})
}
