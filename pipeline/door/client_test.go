package door

import (
	"net/http"
	"testing"
)

func TestClient(t *testing.T) {
	proxies := []string{"127.0.0.0/8", "10.0.0.2", "2001:db8:f::/48"}
	for name, tt := range map[string]struct {
		proxies        []string
		remote         string
		xff, forwarded []string
		want           string
	}{
		"IPv4":                        {nil, "192.0.2.1:99", nil, nil, "192.0.2.1"},
		"nobody is believed":          {nil, "192.0.2.1:99", []string{"10.0.0.1"}, []string{"for=10.0.0.1"}, "192.0.2.1"},
		"nor on this machine":         {nil, "127.0.0.1:99", []string{"10.0.0.1"}, nil, "127.0.0.0/8"},
		"nor on a Unix socket":        {nil, "@", []string{"10.0.0.1"}, nil, "unix"},
		"nor who is not a proxy":      {proxies, "192.0.2.1:99", []string{"10.0.0.1"}, nil, "192.0.2.1"},
		"127/8 is one":                {nil, "127.9.8.7:99", nil, nil, "127.0.0.0/8"},
		"mapped":                      {nil, "[::ffff:192.0.2.1]:99", nil, nil, "192.0.2.1"},
		"mapped loopback":             {nil, "[::ffff:127.1.2.3]:99", nil, nil, "127.0.0.0/8"},
		"IPv6":                        {nil, "[2001:db8:1:2:3:4:5:6]:99", nil, nil, "2001:db8:1:2::/64"},
		"its neighbour":               {nil, "[2001:db8:1:2:ffff::1]:99", nil, nil, "2001:db8:1:2::/64"},
		"a zone":                      {nil, "[fe80::1%eth0]:99", nil, nil, "fe80::/64"},
		"by a proxy":                  {proxies, "10.0.0.2:99", []string{"192.0.2.9"}, nil, "192.0.2.9"},
		"what the client said before": {proxies, "10.0.0.2:99", []string{"198.51.100.7, 192.0.2.9"}, nil, "192.0.2.9"},
		"in a header of its own":      {proxies, "10.0.0.2:99", []string{"198.51.100.7", "192.0.2.9"}, nil, "192.0.2.9"},
		"by two proxies":              {proxies, "127.0.0.1:99", []string{"198.51.100.7, 192.0.2.9, 10.0.0.2"}, nil, "192.0.2.9"},
		"a proxy itself":              {proxies, "127.0.0.1:99", []string{"10.0.0.2"}, nil, "10.0.0.2"},
		"a mapped proxy":              {proxies, "[::ffff:10.0.0.2]:99", []string{"192.0.2.9"}, nil, "192.0.2.9"},
		"an IPv6 proxy":               {proxies, "[2001:db8:f::1]:99", []string{"2001:db8::1"}, nil, "2001:db8::/64"},
		"with a port":                 {proxies, "10.0.0.2:99", []string{"192.0.2.9:1234"}, nil, "192.0.2.9"},
		"unknown":                     {proxies, "10.0.0.2:99", []string{"192.0.2.9, unknown"}, nil, "10.0.0.2"},
		"empty":                       {proxies, "10.0.0.2:99", []string{""}, nil, "10.0.0.2"},
		"ends empty":                  {proxies, "10.0.0.2:99", []string{"192.0.2.9,"}, nil, "10.0.0.2"},
		"no header":                   {proxies, "10.0.0.2:99", nil, nil, "10.0.0.2"},
		"Forwarded": {proxies, "10.0.0.2:99", nil,
			[]string{`for=198.51.100.7, For=192.0.2.9;proto=https;host="a,for=192.0.2.8;b\""`}, "192.0.2.9"},
		"Forwarded, IPv6":       {proxies, "10.0.0.2:99", nil, []string{`for="[2001:db8::1]:4711"`}, "2001:db8::/64"},
		"Forwarded, hidden":     {proxies, "10.0.0.2:99", nil, []string{`for=192.0.2.9, for=_hidden`}, "10.0.0.2"},
		"Forwarded without for": {proxies, "10.0.0.2:99", nil, []string{`for=192.0.2.9, by=10.0.0.2`}, "10.0.0.2"},
		"both":                  {proxies, "10.0.0.2:99", []string{"192.0.2.9"}, []string{`for=198.51.100.7`}, "10.0.0.2"},
		"Unix":                  {[]string{"unix"}, "@", []string{"198.51.100.7, 192.0.2.9"}, nil, "192.0.2.9"},
		"Unix, nonsense":        {[]string{"unix"}, "", []string{"nonsense"}, nil, "unix"},
		"Unix is not TCP":       {[]string{"unix"}, "192.0.2.1:99", []string{"192.0.2.9"}, nil, "192.0.2.1"},
	} {
		p, err := ParseProxies(tt.proxies)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{"X-Forwarded-For": tt.xff, "Forwarded": tt.forwarded}}
		if got := p.Client(r); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
	for _, wrong := range []string{"", "proxy", "0.0.0.0/0", "::/0", "*", "10.0.0.2:80", "10.0.0.0/33", "fe80::1%eth0", "all"} {
		if _, err := ParseProxies([]string{"10.0.0.2", wrong}); err == nil {
			t.Errorf("%q is a proxy", wrong)
		}
	}
}

func FuzzClient(f *testing.F) {
	f.Add("10.0.0.2:1", "1.2.3.4, 10.0.0.2", `for="[::1]:1", for=x`)
	f.Add("@", "", `"`)
	f.Fuzz(func(t *testing.T, remote, xff, forwarded string) {
		p, _ := ParseProxies([]string{"10.0.0.0/8", "unix"})
		got := p.Client(&http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {xff}, "Forwarded": {forwarded}}})
		if got == "" || len(got) > 64 {
			t.Errorf("got %q", got)
		}
		alone := Proxies{}.Client(&http.Request{RemoteAddr: remote})
		if lies := (Proxies{}).Client(&http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {xff}}}); lies != alone {
			t.Errorf("%q believes %q", remote, xff)
		}
	})
}
