package outbound

import "testing"

func TestInClear(t *testing.T) {
	for _, c := range []struct {
		hosts []string
		name  string
		port  int
		clear bool
	}{
		{[]string{"a.example"}, "a.example", 80, false},
		{[]string{"a.example"}, "a.example", 443, false},
		{[]string{"a.example:80"}, "a.example", 80, true},
		{[]string{"a.example:8080"}, "a.example", 8080, true},
		{[]string{"*.a.example:8080"}, "b.a.example", 8080, true},
		{[]string{"a.example:8080"}, "a.example", 80, false},
		{[]string{"a.example:443"}, "a.example", 443, false}, // a program could say http there
		{[]string{"a.example:8443"}, "a.example", 8443, false},
		{[]string{"a.example:80", "b.example"}, "b.example", 80, false}, // the port is another host's
		{[]string{"a.example:80", "b.example"}, "a.example", 80, true},
		{nil, "a.example", 80, false},
	} {
		if got := namesOf(c.hosts).allowsClear(c.name, c.port); got != c.clear {
			t.Errorf("%v: %s:%d in the clear: got %v", c.hosts, c.name, c.port, got)
		}
	}
}
