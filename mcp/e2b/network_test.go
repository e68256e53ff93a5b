package e2b

import (
	"net/netip"
	"testing"
)

// TestParsePrefix: an IPv4 network is the same in any notation, so that denials apply.
func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]string{
		"8.8.8.8": "8.8.8.8/32", "::ffff:8.8.8.8": "8.8.8.8/32", "8.8.8.8/24": "8.8.8.0/24", "::ffff:8.8.8.0/120": "8.8.8.0/24",
		"::ffff:8.8.8.8/128": "8.8.8.8/32",
		"::ffff:0:0/96":      "0.0.0.0/0", "2001:db8::1/32": "2001:db8::/32",
	} {
		if got, err := parsePrefix(text); err != nil || got != netip.MustParsePrefix(want) {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "example.com", "1.2.3.4/33", "1.2.3"} {
		if got, err := parsePrefix(text); err == nil {
			t.Errorf("%s: got %s", text, got)
		}
	}
}
