package identity

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestMiddleware(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	person := create(t, s, Token{Name: "ada", Kind: Person, Namespaces: All()})
	expired := create(t, s, Token{Name: "old", Kind: Person, Namespaces: All(), Expires: time.Now().Add(-time.Minute)})
	stranger, _ := newToken(nil)
	for name, tt := range map[string]struct {
		header []string
		status int
		body   string
	}{
		"agent":              {bearer(token), 200, `true token:ci agent [a b] []`},
		"person":             {bearer(person), 200, `true token:ada person [*] []`},
		"scheme in capitals": {[]string{"Authorization", "BEARER " + token}, 200, `true token:ci agent [a b] []`},
		"none":               {nil, 401, "a token is required"},
		"wrong secret":       {bearer(wrongSecret(token)), 401, "not valid"},
		"unknown":            {bearer(stranger), 401, "not valid"},
		"typing error":       {bearer(token[:60]), 401, "not valid"},
		"expired":            {bearer(expired), 401, "not valid"},
		"JWT":                {bearer("eyJhbGciOiJub25lIn0.e30."), 401, "not valid"},
		"empty":              {bearer(""), 401, "not valid"},
		"no scheme":          {[]string{"Authorization", token}, 401, "not valid"},
		"basic":              {[]string{"Authorization", "Basic " + token}, 401, "not valid"},
		"two":                {append(bearer(token), bearer(person)...), 401, "not valid"},
		"the same twice":     {append(bearer(token), bearer(token)...), 401, "not valid"},
		"other header":       {[]string{"X-Api-Key", token}, 401, "a token is required"},
		"cookie":             {[]string{"Cookie", "access_token=" + token}, 401, "a token is required"},
	} {
		w := request(New(Config{Tokens: s}), tt.header...)
		wantStatus(t, name, w, tt.status)
		if !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s: got %s, want %s", name, w.Body, tt.body)
		}
		challenge := w.Header().Get("WWW-Authenticate")
		if (challenge != "") != (tt.status == 401) || strings.Contains(challenge, "invalid_token") != (tt.body == "not valid") {
			t.Errorf("%s: the challenge is %q", name, challenge)
		}
	}
	if w := request(New(Config{}), bearer(token)...); w.Code != 401 {
		t.Errorf("without a store: got %d %s", w.Code, w.Body)
	}
}

// All that can be wrong with a token gets the same answer.
func TestSameAnswer(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	expired := create(t, s, Token{Name: "old", Kind: Person, Namespaces: All(), Expires: time.Now().Add(-time.Minute)})
	stranger, _ := newToken(nil)
	var want string
	for _, wrong := range []string{wrongSecret(token), stranger, expired, token[:70] + "AAAAA", tokenPrefix, "x.y.z", ""} {
		w := request(New(Config{Tokens: s}), bearer(wrong)...)
		got := fmt.Sprint(w.Code, w.Header(), w.Body)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("got %s, and for another token %s", got, want)
		}
	}
}

func TestTokenInURL(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	c := New(Config{Tokens: s})
	for _, query := range []string{"access_token=" + token, "access_token=x", "a=1&token=" + token, "a=1&b=" + url.QueryEscape(token),
		"%zz&access_token=" + token, "a=;t=" + token} {
		for _, header := range []string{"", "Bearer " + token} { // a good one beside it is no excuse
			r := httptest.NewRequest(http.MethodGet, "/mcp?"+query, nil)
			if header != "" {
				r.Header.Set("Authorization", header)
			}
			wantStatus(t, query[:8], send(c, r), http.StatusBadRequest)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/mcp?session=1", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	wantStatus(t, "a harmless query", send(c, r), http.StatusOK)
}

// Ten thousand wrong tokens from one address cost no derivation, and shut out nobody, neither earlier nor later
// clients.
func TestWrongTokens(t *testing.T) {
	s := OpenTokens(t.TempDir())
	token := create(t, s, agent)
	fresh := create(t, s, Token{Name: "ada", Kind: Person, Namespaces: All()})
	expired := create(t, s, Token{Name: "old", Kind: Agent, Namespaces: Only("a"), Expires: time.Unix(1, 0)})
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	i := newIssuer(t, public("k", key))
	synctest.Test(t, func(t *testing.T) {
		jwt := func(more claims) []string { return bearer(signed(t, jose.EdDSA, key, kid("k"), i.claims(more))) }
		c := i.checker()
		c.cfg.Tokens = s
		wantStatus(t, "a good token", request(c, bearer(token)...), 200)
		n := counted(s)
		status := map[int]int{}
		forged := strings.Split(jwt(nil)[1], ".")
		for round := range 10_000 {
			wrong, _ := newToken(nil)
			w := request(c, bearer([]string{wrong, wrongSecret(token), wrongSecret(fresh), "x", strings.Join(append(forged[1:2], "e30", forged[1]),
				".")}[round%5])...)
			status[w.Code]++
			if w.Code == 429 && w.Header().Get("Retry-After") != "6" {
				t.Fatalf("Retry-After: %q", w.Header().Get("Retry-After"))
			}
		}
		if n.Load() != 0 || status[401] != maxFailures || status[429] != 10_000-maxFailures {
			t.Errorf("%d derivations, and %v", n.Load(), status)
		}
		wantStatus(t, "a good token of the same address", request(c, bearer(token)...), 200)
		wantStatus(t, "a token that nobody has used yet", request(c, bearer(fresh)...), 200)
		wantStatus(t, "a JWT that nobody has used yet", request(c, jwt(nil)...), 200)
		wantStatus(t, "nothing", request(c), 401)
		wantStatus(t, "a token that has expired is not a guess", request(c, bearer(expired)...), 401)
		wantStatus(t, "nor is such a JWT", request(c, jwt(claims{"exp": time.Now().Add(-time.Hour).Unix()})...), 401)
		wantStatus(t, "another address", request(c, append(bearer(wrongSecret(token)), "Remote", "192.0.2.2:1")...), 401)
		time.Sleep(failEvery)
		wantStatus(t, "a wrong one later", request(c, bearer(wrongSecret(token))...), 401)
		wantStatus(t, "and another", request(c, bearer(wrongSecret(token))...), 429)
		time.Sleep(maxFailures * failEvery)
		for range maxFailures {
			wantStatus(t, "much later", request(c, bearer(wrongSecret(token))...), 401)
		}
	})
}

// A guesser that has read the key of a record, and so makes secrets with the right MAC, slows down that one token,
// until the token is used.
func TestGuessesOfOne(t *testing.T) {
	s := quick(t.TempDir())
	token, other := create(t, s, agent), create(t, s, Token{Name: "ada", Kind: Person, Namespaces: All()})
	id, _ := parseToken(token)
	r, _, err := s.record(id)
	if err != nil {
		t.Fatal(err)
	}
	newWrong := func() string {
		body := withID(must2(newToken(nil)), id)[:tokenLength-checkLength-macLength]
		body += macOf(r.Key, body)
		return body + checkOf(body)
	}
	synctest.Test(t, func(t *testing.T) {
		c, n := New(Config{Tokens: s}), counted(s)
		for i := range 100 {
			request(c, append(bearer(newWrong()), "Remote", fmt.Sprintf("192.0.2.%d:1", i))...)
		}
		if n.Load() != maxWrong {
			t.Errorf("%d derivations", n.Load())
		}
		wantStatus(t, "another token", request(c, bearer(other)...), 200)
		wantStatus(t, "the token, meanwhile", request(c, bearer(token)...), 429)
		time.Sleep(wrongEvery)
		wantStatus(t, "a second later", request(c, bearer(token)...), 200)
		for range 10 {
			request(c, bearer(newWrong())...)
			wantStatus(t, "from then on", request(c, bearer(token)...), 200)
		}
	})
}

func must2[T, U any](v T, _ U) T { return v }

// An error that nobody can mend at the other end is logged once a minute.
func TestUnreadableLog(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	if err := writeFile(s.path(), "{"); err != nil {
		t.Fatal(err)
	}
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	i := newIssuer(t, public("k", key))
	i.set(func() { i.down = true })
	for name, credentials := range map[string]func(*testing.T) string{
		"a damaged store":      func(*testing.T) string { return token },
		"an issuer that fails": func(t *testing.T) string { return signed(t, jose.EdDSA, key, kid("k"), i.claims(nil)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			c := New(Config{Tokens: s, OAuth: &OAuth{Issuer: i.URL, Resource: resource}, Log: slog.New(slog.NewTextHandler(&log, nil))})
			before := i.fetches()
			for range 3 {
				for range 1000 {
					wantStatus(t, name, request(c, bearer(credentials(t))...), 503)
				}
				time.Sleep(time.Minute)
			}
			if lines := strings.Count(log.String(), "\n"); lines != 3 || i.fetches()-before > 3 {
				t.Errorf("%s: %d lines and %d fetches in 3 minutes", name, lines, i.fetches()-before)
			}
		})
	}
}

func TestRate(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	other := create(t, s, Token{Name: "ada", Kind: Person, Namespaces: All()})
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Tokens: s, Rate: 2})
		for range 2 * burstSeconds {
			wantStatus(t, "within the burst", request(c, bearer(token)...), 200)
		}
		w := request(c, bearer(token)...)
		wantStatus(t, "above it", w, 429)
		if got := w.Header().Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After: %q", got)
		}
		wantStatus(t, "from another address", request(c, append(bearer(token), "Remote", "192.0.2.7:1")...), 429)
		wantStatus(t, "another identity", request(c, bearer(other)...), 200)
		time.Sleep(500 * time.Millisecond)
		wantStatus(t, "later", request(c, bearer(token)...), 200)
		wantStatus(t, "later, again", request(c, bearer(token)...), 429)
	})
}

// A stream ends with its credentials, and its timer with the stream.
func TestStream(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	stream := func(token string) (ended chan time.Time, finish func()) {
		c := New(Config{Tokens: s})
		ended, quit := make(chan time.Time, 1), make(chan struct{})
		go func() {
			r := httptest.NewRequest(http.MethodGet, "/mcp", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			c.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
					ended <- time.Now()
				case <-quit:
				}
			})).ServeHTTP(httptest.NewRecorder(), r)
		}()
		return ended, func() { close(quit) }
	}
	synctest.Test(t, func(t *testing.T) {
		ended, _ := stream(token)
		_, finish := stream(token)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("a stream ended")
		}
		finish()
		if _, err := s.Revoke(t.Context(), "ci", nil); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		if after := (<-ended).Sub(at); after > recheckEvery {
			t.Errorf("it went on for %v", after)
		}
	})
	synctest.Test(t, func(t *testing.T) { // whose clock begins in the year 2000
		fresh := create(t, s, Token{Name: "fresh", Kind: Person, Namespaces: All(), Expires: time.Now().Add(90 * time.Second)})
		at := time.Now()
		ended, _ := stream(fresh)
		if after := (<-ended).Sub(at); after != 90*time.Second {
			t.Errorf("it went on for %v", after)
		}
	})
}

// Work that a request leaves behind outlasts the request, and not its token.
func TestLasting(t *testing.T) {
	s := quick(t.TempDir())
	for name, test := range map[string]struct {
		expires time.Duration // from the beginning; 0 is never
		end     func(context.Context) error
		within  time.Duration
	}{
		"revoked": {0, func(ctx context.Context) error { _, err := s.Revoke(ctx, "revoked", nil); return err }, recheckEvery},
		"expires": {time.Hour + time.Second, func(context.Context) error { return nil }, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) { // whose clock begins in the year 2000
			token := Token{Name: name, Kind: Person, Namespaces: All()}
			if test.expires > 0 {
				token.Expires = time.Now().Add(test.expires)
			}
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.Header.Set("Authorization", "Bearer "+create(t, s, token))
			var lasting context.Context
			New(Config{Tokens: s}).Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				session, end := WithoutRequest(r.Context())
				defer end(nil)
				i, _ := From(r.Context())
				lasting, _ = WithoutRequest(With(session, i)) // as a request of a session begins a run
			})).ServeHTTP(httptest.NewRecorder(), r)
			time.Sleep(time.Hour)
			if i, known := From(lasting); lasting.Err() != nil || !known || i.Name != name {
				t.Errorf("%s: after an hour: %v, %+v", name, context.Cause(lasting), i)
			}
			if err := test.end(t.Context()); err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			<-lasting.Done()
			if took := time.Since(at); took > test.within || !errors.Is(context.Cause(lasting), errEnded) {
				t.Errorf("%s: ended after %v: %v", name, took, context.Cause(lasting))
			}
		})
	}
	ctx, end := WithoutRequest(With(t.Context(), Identity{Name: "ada", Kind: Person, Namespaces: All(), Source: FromJWT, Expires: time.Now()}))
	if i, known := From(ctx); !known || i.Name != "ada" || ctx.Err() != nil {
		t.Errorf("of a JWT: %+v, %v", i, ctx.Err())
	}
	if end(nil); ctx.Err() == nil {
		t.Error("it does not end")
	}
}

// A client with many addresses takes no more memory.
func TestBuckets(t *testing.T) {
	l := newLimits(1, 1, 100)
	for i := range 10_000 {
		if wait := l.allow(fmt.Sprint(i)); wait != 0 {
			t.Fatalf("%d: wait %v", i, wait)
		}
	}
	if len(l.byKey) != 100 || l.used.Len() != 100 {
		t.Errorf("%d and %d are kept", len(l.byKey), l.used.Len())
	}
	if l.allow("9999") == 0 || l.allow("5") != 0 {
		t.Error("the last one is forgotten, or an old one is not")
	}
}

func TestStoreUnreadable(t *testing.T) {
	s := quick(t.TempDir())
	token := create(t, s, agent)
	if err := writeFile(s.path(), "{"); err != nil {
		t.Fatal(err)
	}
	w := request(New(Config{Tokens: s}), bearer(token)...)
	wantStatus(t, "a damaged store", w, http.StatusServiceUnavailable)
	if w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), s.dir) {
		t.Errorf("got %v, %s", w.Header(), w.Body)
	}
}
