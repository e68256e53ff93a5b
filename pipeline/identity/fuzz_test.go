package identity

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Whatever stands in a request, only the token itself identifies anybody.
func FuzzIdentify(f *testing.F) {
	s := quick(f.TempDir())
	token, _, err := s.Create(f.Context(), agent, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer "+token, "", "192.0.2.1:1", "")
	f.Add("Bearer "+token[:len(token)-1], "access_token="+token, "@", "::1, 192.0.2.1")
	f.Add("bearer  "+token, "a=b;c%", "[fe80::1%25x]:1", ",")
	f.Add("Basic "+token, "a="+url.QueryEscape(token), "", "\x00")
	f.Add("eyJhbGciOiJub25lIn0.e30.", "%", "1", "")
	f.Fuzz(func(t *testing.T, header, query, remote, forwarded string) {
		c := New(Config{Tokens: s})
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Header["Authorization"], r.Header["X-Forwarded-For"] = []string{header}, []string{forwarded}
		r.URL.RawQuery, r.RemoteAddr = query, remote
		i, err := c.Identify(r)
		scheme, rest, _ := strings.Cut(header, " ")
		good := strings.EqualFold(scheme, "bearer") && strings.TrimLeft(rest, " ") == token && !strings.Contains(query, "access_token") &&
			!strings.Contains(query, tokenPrefix)
		if good != (err == nil && i.Name == "ci") && !strings.Contains(query, "%") && !strings.Contains(query, tokenPrefix) &&
			!strings.Contains(query, "access_token") {
			t.Errorf("%q, %q: got %+v, %v", header, query, i, err)
		}
		if err == nil && !strings.Contains(header, token) {
			t.Errorf("%q: got %+v", header, i)
		}
	})
}

// A store that can be read is one that could have been written.
func FuzzContent(f *testing.F) {
	f.Add([]byte(`{"version":1,"tokens":[]}`))
	f.Add([]byte(`{"version":1,"tokens":[{"id":"AAAAAAAAAA","name":"ci","kind":"agent","namespaces":["a"],"created":"2026-01-01T00:00:00Z","key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=","kdf":"` + kdf + `","salt":"AAAAAAAAAAAAAAAAAAAAAA==","hash":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c content
		if c.decode(data) != nil {
			return
		}
		for _, r := range c.Tokens {
			if r.Check() != nil || len(r.Hash) != hashSize || r.KDF != kdf {
				t.Errorf("%q: got %+v", data, r)
			}
		}
	})
}

func BenchmarkMiddleware(b *testing.B) {
	s := quick(b.TempDir())
	token, _, err := s.Create(b.Context(), agent, nil)
	if err != nil {
		b.Fatal(err)
	}
	c := New(Config{Tokens: s, Rate: 1e9})
	for b.Loop() {
		if w := request(c, bearer(token)...); w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}

func BenchmarkDerive(b *testing.B) {
	token, _ := newToken(nil)
	for b.Loop() {
		argon(token, make([]byte, saltSize))
	}
}
