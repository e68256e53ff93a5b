package identity

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestE2BSpelling: each token has one key that SDKs of E2B take, and no other key is a token.
func TestE2BSpelling(t *testing.T) {
	sdk := regexp.MustCompile(`^e2b_[0-9a-f]+$`) // which their SDKs check before they send a key
	for range 100 {
		token, _ := newToken(nil)
		key := ToE2B(token)
		if back, ok := FromE2B(key); !sdk.MatchString(key) || !ok || back != token {
			t.Fatalf("%s became %s, and then %s %v", token, key, back, ok)
		}
	}
	token, _ := newToken(nil)
	key := ToE2B(token)
	other := func(i int) string {
		digit := byte('0')
		if key[i] == digit {
			digit = '1'
		}
		return key[:i] + string(digit) + key[i+1:]
	}
	top := "e2b_f" + key[5:len(key)-8]
	for name, bad := range map[string]string{
		"empty": "", "another prefix": "e2c_" + key[4:], "short": key[:len(key)-1], "long": key + "0",
		"capitals": "e2b_" + strings.ToUpper(key[4:]),
		"a digit":  other(10), "the check": other(len(key) - 1), "no digit": key[:20] + "x" + key[21:],
		"E2B's own":                  "e2b_" + strings.Repeat("0", 40),
		"more bits than a token has": top + hexCheck(top),
	} {
		if got, ok := FromE2B(bad); ok {
			t.Errorf("%s: %q is the token %q", name, bad, got)
		}
	}
	if got := ToE2B("smcp_nothing"); got != "" {
		t.Errorf("an invalid token became %q", got)
	}
}

// TestE2BKeyIdentifies: a key is its token, wherever one is taken, until that is revoked.
func TestE2BKeyIdentifies(t *testing.T) {
	store := OpenTokens(t.TempDir())
	token, _, err := store.Create(t.Context(), Token{Name: "ci", Kind: Agent, Namespaces: Only("ci")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Tokens: store})
	ask := func(credentials string) error {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+credentials)
		i, err := c.Identify(r)
		if err == nil && i.Name != "ci" {
			t.Errorf("%v is identified", i)
		}
		return err
	}
	if err := ask(ToE2B(token)); err != nil {
		t.Error(err)
	}
	if _, err := c.Identify(httptest.NewRequest(http.MethodGet, "/?key="+ToE2B(token), nil)); err != errURL {
		t.Errorf("in a URL: %v", err)
	}
	if _, err := store.Revoke(t.Context(), ToE2B(token), nil); err != nil {
		t.Error(err)
	}
	if err := ask(ToE2B(token)); err != errInvalid {
		t.Errorf("after it was revoked: %v", err)
	}
}

// TestAgain: credentials that a caller got act for the caller as long as the caller's own credentials are valid, and
// count as the caller's requests.
func TestAgain(t *testing.T) {
	store := OpenTokens(t.TempDir())
	token, made, err := store.Create(t.Context(), Token{Name: "ci", Kind: Agent, Namespaces: Only("ci")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Tokens: store, Rate: 1})
	i, err := store.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	ctx, done, err := c.Reidentify(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := From(ctx); !ok || got.Name != "ci" {
		t.Errorf("got %v", got)
	}
	done(nil)
	for range burstSeconds {
		_, _, err = c.Reidentify(t.Context(), i)
	}
	if e := AsRefused(err); err == nil || e.Status != http.StatusTooManyRequests {
		t.Errorf("too many requests: %v", err)
	}
	late := i
	late.Expires = time.Now().Add(-time.Second)
	if _, _, err := c.Reidentify(t.Context(), late); err != errInvalid {
		t.Errorf("expired: %v", err)
	}
	for _, source := range []Source{FromJWT, FromCertificate} {
		late.Source, late.Name = source, "other"
		if _, _, err := c.Reidentify(t.Context(), late); err != errInvalid {
			t.Errorf("an expired %s: %v", source, err)
		}
	}
	if _, err := store.Revoke(t.Context(), made.ID, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Reidentify(t.Context(), i); err != errInvalid {
		t.Errorf("revoked: %v", err)
	}
}
