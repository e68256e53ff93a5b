package egress

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

func TestAddressMap(t *testing.T) {
	var b addressMap
	for _, tt := range []struct{ name, want string }{
		{"a.test", "127.64.0.1"}, {"b.test", "127.64.0.2"}, {"a.test", "127.64.0.1"}, {"c.test", "127.64.0.3"},
	} {
		if got, err := b.address(tt.name); err != nil || got.String() != tt.want {
			t.Errorf("%s: got %v, %v, want %s", tt.name, got, err, tt.want)
		}
	}
	for address, want := range map[string]string{
		"127.64.0.1": "a.test", "127.64.0.3": "c.test", "::ffff:127.64.0.2": "b.test",
		"127.64.0.0": "", "127.64.0.4": "", "127.0.0.1": "", "0.0.0.0": "", "255.255.255.255": "", "::1": "", "::127.64.0.1": "",
	} {
		if got, known := b.name(netip.MustParseAddr(address)); got != want || known != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", address, got, known, want)
		}
	}
	if name, known := b.name(netip.Addr{}); known {
		t.Errorf("no address is %q", name)
	}
}

// TestAddressMapFull fills a map: every address is in 127.64.0.0/10 and assigned once, and existing names stay.
func TestAddressMapFull(t *testing.T) {
	var b addressMap
	all, last := netip.MustParsePrefix("127.64.0.0/10"), netip.Addr{}
	for i := range maxNames {
		name := fmt.Sprint(i, ".example.com")
		address, err := b.address(name)
		if err != nil || !all.Contains(address) || !last.Less(address) {
			t.Fatalf("%s: %v after %v, %v", name, address, last, err)
		}
		if got, _ := b.name(address); got != name {
			t.Fatalf("%v is %q, want %q", address, got, name)
		}
		last = address
	}
	if address, err := b.address("more.example.com"); err == nil || !strings.Contains(err.Error(), "65536 names") {
		t.Errorf("one more: %v, %v", address, err)
	}
	if address, err := b.address("0.example.com"); err != nil || address.String() != "127.64.0.1" {
		t.Errorf("the first: %v, %v", address, err)
	}
}

func TestAddressMapConcurrently(t *testing.T) {
	var b addressMap
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				name := fmt.Sprint(i, ".test")
				address, err := b.address(name)
				if got, _ := b.name(address); err != nil || got != name {
					t.Errorf("%s has %v, which is %q, %v", name, address, got, err)
				}
			}
		})
	}
	all.Wait()
	if len(b.names) != 1000 {
		t.Errorf("%d names, want 1000", len(b.names))
	}
}
