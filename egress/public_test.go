package egress

import "testing"

func TestPublicWeb(t *testing.T) {
	p, err := PublicWeb([]string{"evil.example", "*.tracker.example", "half.example:80"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		port int
		want bool
	}{
		{"example.com", 443, true}, {"a.b.example.org", 80, true}, {"bücher.example", 443, true},
		{"example.com", 22, false}, {"example.com", 8080, false}, {"example.com", 0, false},
		{"evil.example", 443, false}, {"x.tracker.example", 443, false}, {"half.example", 80, false}, {"half.example", 443, true},
		{"127.0.0.1", 80, false}, {"0x7f.1", 80, false}, {"[::1]", 80, false}, {"localhost", 80, false}, {"", 80, false},
	} {
		if d := p.Decide(tt.name, tt.port); d.Allowed != tt.want {
			t.Errorf("%s:%d: %+v", tt.name, tt.port, d)
		}
	}
	if p.Empty() {
		t.Error("it is empty")
	}
	if _, err := PublicWeb([]string{"a*b"}); err == nil {
		t.Error("a pattern that nobody understands denies nothing")
	}
}
