package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer is an authorization server: its keys and its metadata are those of the real protocol, over HTTP.
type issuer struct {
	*httptest.Server
	mu    sync.Mutex
	keys  []jose.JSONWebKey
	down  bool
	asked int
	says  string // another issuer's name in the metadata
}

func newIssuer(t *testing.T, keys ...jose.JSONWebKey) *issuer {
	t.Helper()
	i := &issuer{keys: keys}
	mux := http.NewServeMux()
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.asked++
		if i.down {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: i.keys})
	})
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		name := i.URL
		if i.says != "" {
			name = i.says
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, name, i.URL+"/keys")
	})
	mux.HandleFunc("/huge", func(w http.ResponseWriter, r *http.Request) {
		keys, _ := json.Marshal(i.keys)
		fmt.Fprintf(w, `{"keys":%s,"more":"%s"}`, keys, strings.Repeat("x", maxDocument))
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) })
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) set(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

func (i *issuer) fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

const resource = "https://sandbox.example.com/mcp"

func (i *issuer) checker() *Checker {
	return New(Config{OAuth: &OAuth{Issuer: i.URL, Resource: resource, Scopes: []string{"mcp"}, Person: "mcp:person"}})
}

type claims map[string]any

func (i *issuer) claims(more claims) claims {
	now := time.Now().Unix()
	c := claims{"iss": i.URL, "aud": resource, "sub": "build-bot", "iat": now, "nbf": now, "exp": now + 600, "scope": "mcp other",
		"namespaces": []string{"a"}}
	maps.Copy(c, more)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// signed returns a JWT of these claims and headers.
func signed(t *testing.T, alg jose.SignatureAlgorithm, key any, header map[jose.HeaderKey]any, c claims) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: header}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	object, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func kid(id string) map[jose.HeaderKey]any { return map[jose.HeaderKey]any{"kid": id} }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func public(id string, k crypto.Signer) jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: id, Key: k.Public(), Use: "sig"}
}

func TestJWT(t *testing.T) {
	rsaKey := must(rsa.GenerateKey(rand.Reader, 2048))
	ecKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	ec384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	stranger := must(rsa.GenerateKey(rand.Reader, 2048))
	forEncryption := public("enc", rsaKey)
	forEncryption.Use = "enc"
	pinned := public("ps", rsaKey)
	pinned.Algorithm = "PS256"
	secret := []byte("0123456789abcdef0123456789abcdef")
	i := newIssuer(t, public("rsa", rsaKey), public("ec", ecKey), public("ec384", ec384), public("ed", edKey), forEncryption, pinned,
		jose.JSONWebKey{KeyID: "oct", Key: secret}, jose.JSONWebKey{KeyID: "private", Key: ecKey})
	der := must(x509.MarshalPKIXPublicKey(rsaKey.Public()))
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})

	rs := func(more claims) string { return signed(t, jose.RS256, rsaKey, kid("rsa"), i.claims(more)) }
	good := rs(nil)
	parts := strings.Split(good, ".")
	raw := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	other := strings.Split(rs(claims{"sub": "admin"}), ".")
	embedded := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: stranger},
		&jose.SignerOptions{EmbedJWK: true, ExtraHeaders: kid("rsa")}))
	object := must(embedded.Sign(must(json.Marshal(i.claims(nil)))))
	now := time.Now().Unix()
	for name, tt := range map[string]struct {
		token  string
		status int
		body   string
	}{
		"RS256":             {good, 200, "true jwt:build-bot agent [a] []"},
		"ES256":             {signed(t, jose.ES256, ecKey, kid("ec"), i.claims(nil)), 200, "true jwt:build-bot"},
		"EdDSA":             {signed(t, jose.EdDSA, edKey, kid("ed"), i.claims(nil)), 200, "true jwt:build-bot"},
		"at+jwt":            {signed(t, jose.RS256, rsaKey, map[jose.HeaderKey]any{"kid": "rsa", "typ": "at+jwt"}, i.claims(nil)), 200, "true"},
		"several audiences": {rs(claims{"aud": []string{"x", resource}}), 200, "true"},
		"several":           {rs(claims{"namespaces": []string{"a", "b"}}), 200, "[a b]"},
		"scp":               {rs(claims{"scope": nil, "scp": []string{"mcp"}}), 200, "true"},
		"person":            {rs(claims{"scope": "mcp mcp:person"}), 200, "person [a]"},
		"within the skew":   {rs(claims{"exp": now - 30, "nbf": now + 30}), 200, "true"},
		"without nbf":       {rs(claims{"nbf": nil}), 200, "true"},

		"none":                {raw(`{"alg":"none","kid":"rsa"}`) + "." + parts[1] + ".", 401, ""},
		"None":                {raw(`{"alg":"None","kid":"rsa"}`) + "." + parts[1] + "." + parts[2], 401, ""},
		"no signature":        {parts[0] + "." + parts[1] + ".", 401, ""},
		"HS256 by the PEM":    {signed(t, jose.HS256, pemKey, kid("rsa"), i.claims(nil)), 401, ""},
		"HS256 by the DER":    {signed(t, jose.HS256, der, kid("rsa"), i.claims(nil)), 401, ""},
		"HS256 by its secret": {signed(t, jose.HS256, secret, kid("oct"), i.claims(nil)), 401, ""},
		"PS256":               {signed(t, jose.PS256, rsaKey, kid("rsa"), i.claims(nil)), 401, ""},
		"ES384":               {signed(t, jose.ES384, ec384, kid("ec384"), i.claims(nil)), 401, ""},
		"key of another type": {signed(t, jose.RS256, rsaKey, kid("ec"), i.claims(nil)), 401, ""},
		"key for encryption":  {signed(t, jose.RS256, rsaKey, kid("enc"), i.claims(nil)), 401, ""},
		"key for PS256":       {signed(t, jose.RS256, rsaKey, kid("ps"), i.claims(nil)), 401, ""},
		"private key":         {signed(t, jose.ES256, ecKey, kid("private"), i.claims(nil)), 401, ""},
		"unknown kid":         {signed(t, jose.RS256, rsaKey, kid("new"), i.claims(nil)), 401, ""},
		"no kid":              {signed(t, jose.RS256, rsaKey, nil, i.claims(nil)), 401, ""},
		"stranger's key":      {signed(t, jose.RS256, stranger, kid("rsa"), i.claims(nil)), 401, ""},
		"key in the header":   {must(object.CompactSerialize()), 401, ""},
		"jku": {signed(t, jose.RS256, stranger, map[jose.HeaderKey]any{"kid": "rsa", "jku": i.URL + "/keys"}, i.claims(nil)), 401,
			""},
		"crit": {signed(t, jose.RS256, rsaKey, map[jose.HeaderKey]any{"kid": "rsa", "crit": []string{"x"}, "x": 1}, i.claims(nil)), 401,
			""},
		"logout token":  {signed(t, jose.RS256, rsaKey, map[jose.HeaderKey]any{"kid": "rsa", "typ": "logout+jwt"}, i.claims(nil)), 401, ""},
		"other payload": {parts[0] + "." + other[1] + "." + parts[2], 401, ""},
		"JSON form":     {object.FullSerialize(), 401, ""},
		"two tokens":    {good + " " + good, 401, ""},
		"too long":      {rs(claims{"x": strings.Repeat("x", maxJWT)}), 401, ""},

		"expired":           {rs(claims{"exp": now - 61}), 401, ""},
		"never expires":     {rs(claims{"exp": nil}), 401, ""},
		"exp as text":       {rs(claims{"exp": "2099"}), 401, ""},
		"not yet":           {rs(claims{"nbf": now + 90}), 401, ""},
		"issued later":      {rs(claims{"iat": now + 90}), 401, ""},
		"no beginning":      {rs(claims{"iat": nil, "nbf": nil}), 401, ""},
		"another issuer":    {rs(claims{"iss": i.URL + "/"}), 401, ""},
		"no issuer":         {rs(claims{"iss": nil}), 401, ""},
		"another audience":  {rs(claims{"aud": "https://other.example.com/mcp"}), 401, ""},
		"audience's prefix": {rs(claims{"aud": resource + "/x"}), 401, ""},
		"no audience":       {rs(claims{"aud": nil}), 401, ""},
		"no subject":        {rs(claims{"sub": nil}), 401, ""},
		"a line as subject": {rs(claims{"sub": "x\ny"}), 401, ""},

		"no scope":         {rs(claims{"scope": nil}), 403, "scope"},
		"other scope":      {rs(claims{"scope": "mcpx"}), 403, "scope"},
		"no namespace":     {rs(claims{"namespaces": nil}), 403, "scope"},
		"odd namespace":    {rs(claims{"namespaces": "*"}), 403, "scope"},
		"number":           {rs(claims{"namespaces": []any{1}}), 403, "scope"},
		"claim of a claim": {rs(claims{"namespaces": map[string]any{"a": 1}}), 403, "scope"},
	} {
		w := request(i.checker(), bearer(tt.token)...)
		wantStatus(t, name, w, tt.status)
		if !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s: got %s, want %s", name, w.Body, tt.body)
		}
		challenge := w.Header().Get("WWW-Authenticate")
		switch tt.status {
		case 401:
			want := `Bearer realm="sandboxmcp", error="invalid_token", scope="mcp", resource_metadata="https://sandbox.example.com/.well-known/oauth-protected-resource/mcp"`
			if challenge != want {
				t.Errorf("%s: the challenge is %s", name, challenge)
			}
		case 403:
			if !strings.Contains(challenge, `error="insufficient_scope"`) {
				t.Errorf("%s: the challenge is %s", name, challenge)
			}
		}
	}
}

// A small key is no key.
func TestSmallRSA(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip("this Go makes no RSA keys of 1024 bits: ", err)
	}
	i := newIssuer(t, public("small", key))
	wantStatus(t, "1024 bits", request(i.checker(), bearer(signed(t, jose.RS256, key, kid("small"), i.claims(nil)))...), 401)
}

func TestKeys(t *testing.T) {
	_, old, _ := ed25519.GenerateKey(rand.Reader)
	_, next, _ := ed25519.GenerateKey(rand.Reader)
	i := newIssuer(t, public("old", old))
	by := func(key ed25519.PrivateKey, id string) []string {
		return bearer(signed(t, jose.EdDSA, key, kid(id), i.claims(nil)))
	}
	synctest.Test(t, func(t *testing.T) {
		c := i.checker()
		for range 3 {
			wantStatus(t, "the first key", request(c, by(old, "old")...), 200)
		}
		if n := i.fetches(); n != 1 {
			t.Errorf("%d fetches", n)
		}
		i.set(func() { i.keys = []jose.JSONWebKey{public("next", next)} })
		wantStatus(t, "a new key at once", request(c, by(next, "next")...), 401)
		wantStatus(t, "the old one at once", request(c, by(old, "old")...), 200)
		time.Sleep(fetchEvery)
		for k := range 9 {
			c := request(c, append(by(next, fmt.Sprint("none", k)), "Remote", fmt.Sprintf("192.0.2.%d:1", k))...)
			wantStatus(t, "a key that there is not", c, 401)
		}
		if n := i.fetches(); n != 2 {
			t.Errorf("unknown keys have them fetched: %d fetches", n)
		}
		wantStatus(t, "the new key", request(c, by(next, "next")...), 200)
		wantStatus(t, "the old key, taken back", request(c, by(old, "old")...), 401)

		i.set(func() { i.down = true })
		time.Sleep(keysFresh + time.Second)
		wantStatus(t, "with the issuer down", request(c, by(next, "next")...), 200)
		time.Sleep(keysUsable)
		w := request(c, by(next, "next")...)
		wantStatus(t, "with the issuer down for long", w, 503)
		i.set(func() { i.down = false })
		wantStatus(t, "right after", request(c, by(next, "next")...), 503)
		time.Sleep(fetchEvery)
		wantStatus(t, "a minute after", request(c, by(next, "next")...), 200)
	})
}

// Keys that nobody asks for do not serve for ever: one that the issuer has taken back ends with the next fetch.
func TestStaleKeys(t *testing.T) {
	_, old, _ := ed25519.GenerateKey(rand.Reader)
	_, next, _ := ed25519.GenerateKey(rand.Reader)
	i := newIssuer(t, public("old", old))
	synctest.Test(t, func(t *testing.T) {
		c := i.checker()
		token := func() []string { return bearer(signed(t, jose.EdDSA, old, kid("old"), i.claims(nil))) }
		wantStatus(t, "at first", request(c, token()...), 200)
		i.set(func() { i.keys = []jose.JSONWebKey{public("next", next)} })
		time.Sleep(keysFresh + time.Second)
		wantStatus(t, "taken back", request(c, token()...), 401)
	})
}

func TestBadIssuers(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	for why, change := range map[string]func(*issuer, *OAuth){
		"the metadata of another issuer": func(i *issuer, o *OAuth) { i.says = "https://login.example.com" },
		"is larger than":                 func(i *issuer, o *OAuth) { o.JWKS = i.URL + "/huge" },
		"answered 302":                   func(i *issuer, o *OAuth) { o.JWKS = i.URL + "/moved" },
		"has no usable key":              func(i *issuer, o *OAuth) { i.keys = nil },
		"is not https":                   func(i *issuer, o *OAuth) { o.JWKS = "http://login.example.com/keys" },
		"passwd\\\" is not https":        func(i *issuer, o *OAuth) { o.JWKS = "file:///etc/passwd" },
		"refused":                        func(i *issuer, o *OAuth) { i.Close() },
	} {
		i := newIssuer(t, public("k", key))
		o := &OAuth{Issuer: i.URL, Resource: resource}
		change(i, o)
		var log strings.Builder
		c := New(Config{OAuth: o, Log: slog.New(slog.NewTextHandler(&log, nil))})
		w := request(c, bearer(signed(t, jose.EdDSA, key, kid("k"), i.claims(nil)))...)
		wantStatus(t, why, w, 503)
		if !strings.Contains(log.String(), why) || strings.Contains(log.String(), "eyJ") {
			t.Errorf("%s: the log has %s", why, &log)
		}
	}
}

func TestSafeURL(t *testing.T) {
	for address, want := range map[string]bool{
		"https://login.example.com/keys": true, "http://127.0.0.1:8080/keys": true, "http://[::1]/": true, "http://localhost/": true,
		"http://login.example.com/keys": false, "http://127.0.0.1.example.com/": false, "http://localhost.example.com/": false,
		"file:///etc/passwd":                       false,
		"https://user:password@login.example.com/": false, "//login.example.com/": false, "": false, "http://10.0.0.1/": false,
	} {
		if got := SafeURL(address); got != want {
			t.Errorf("%s: got %v, want %v", address, got, want)
		}
	}
}

func TestMetadata(t *testing.T) {
	c := New(Config{OAuth: &OAuth{Issuer: "https://login.example.com", Resource: resource, Scopes: []string{"mcp"}}})
	for _, path := range []string{MetadataPath, MetadataPath + "/mcp"} {
		w := httptest.NewRecorder()
		c.Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		want := `{"resource":"https://sandbox.example.com/mcp","authorization_servers":["https://login.example.com"],"scopes_supported":["mcp"],"bearer_methods_supported":["header"],"resource_name":"sandboxmcp"}`
		if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %d %s", path, w.Code, got)
		}
	}
	for _, r := range []*http.Request{httptest.NewRequest(http.MethodPost, MetadataPath, nil),
		httptest.NewRequest(http.MethodGet, MetadataPath+"/other", nil)} {
		w := httptest.NewRecorder()
		c.Metadata().ServeHTTP(w, r)
		wantStatus(t, r.Method+r.URL.Path, w, 404)
	}
	w := httptest.NewRecorder()
	New(Config{}).Metadata().ServeHTTP(w, httptest.NewRequest(http.MethodGet, MetadataPath, nil))
	wantStatus(t, "without an issuer", w, 404)
	if !json.Valid(w.Body.Bytes()) {
		t.Errorf("got %s", w.Body)
	}
}
