package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Ages of an issuer's keys. A key that the issuer has withdrawn stays valid until the next fetch; if the issuer is
// unreachable, keys stay valid for keysUsable. A token with an unknown key triggers a fetch too.
const (
	keysFresh  = 10 * time.Minute
	keysUsable = time.Hour
	fetchEvery = time.Minute // minimum time between fetches
)

// Limits of a fetch. No request waits longer.
const (
	fetchTimeout = 5 * time.Second
	maxKeys      = 100
	maxDocument  = 1 << 20 // bytes
)

// errIssuer is the error if the keys of the issuer are unavailable.
var errIssuer = errors.New("the keys of the issuer can't be fetched")

// keySet holds the keys of an issuer.
type keySet struct {
	oauth  *OAuth
	client *http.Client
	failed func(error) // gets the error of a failed fetch

	fetching chan struct{} // holds one value during a fetch

	mu      sync.Mutex
	keys    map[string][]jose.JSONWebKey
	fetched time.Time // last successful fetch
	tried   time.Time // last attempt
}

func newKeySet(o *OAuth, failed func(error)) *keySet {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
	return &keySet{oauth: o, failed: failed, fetching: make(chan struct{}, 1), client: &http.Client{
		Transport: transport, Timeout: fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// findKeys returns the keys with an id, and errInvalid if there are none. It fetches keys that are due; meanwhile
// other callers use the cached keys, or wait if they need new ones.
func (s *keySet) findKeys(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	found, due, err := s.cached(id)
	if !due {
		return found, err
	}
	if err == nil {
		select {
		case s.fetching <- struct{}{}:
		default:
			return found, nil
		}
	} else {
		select {
		case s.fetching <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer func() { <-s.fetching }()
	if found, due, err = s.cached(id); due {
		s.refresh(context.WithoutCancel(ctx)) // a client that disconnects must not waste the attempt
		found, _, err = s.cached(id)
	}
	return found, err
}

// cached returns the result of findKeys from the cached keys, and whether a fetch is due first.
func (s *keySet) cached(id string) (found []jose.JSONWebKey, due bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now()
	age := at.Sub(s.fetched)
	found = s.keys[id]
	due = (len(found) == 0 || age > keysFresh) && at.Sub(s.tried) >= fetchEvery
	switch {
	case age > keysUsable:
		return nil, due, errIssuer
	case len(found) == 0:
		return nil, due, errInvalid
	}
	return found, due, nil
}

// refresh fetches the keys.
func (s *keySet) refresh(ctx context.Context) {
	s.mu.Lock()
	s.tried = time.Now()
	s.mu.Unlock()
	keys, err := s.fetch(ctx)
	if err != nil {
		s.failed(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.fetched = keys, time.Now()
}

func (s *keySet) fetch(ctx context.Context) (map[string][]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	address := s.oauth.JWKS
	if address == "" {
		var err error
		if address, err = s.discover(ctx); err != nil {
			return nil, err
		}
	}
	var set struct{ Keys []json.RawMessage }
	if err := s.getJSON(ctx, address, &set); err != nil {
		return nil, err
	}
	keys := map[string][]jose.JSONWebKey{}
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && k.Valid() && k.KeyID != "" { // skip unsupported kinds of keys
			keys[k.KeyID] = append(keys[k.KeyID], k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no usable key", address)
	}
	return keys, nil
}

// discover reads the address of the keys from the issuer's metadata, at the locations of OpenID Connect and of RFC
// 8414.
func (s *keySet) discover(ctx context.Context) (string, error) {
	u, err := url.Parse(s.oauth.Issuer)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	origin := u.Scheme + "://" + u.Host
	var failed error
	for _, at := range []string{origin + path + "/.well-known/openid-configuration", origin + "/.well-known/oauth-authorization-server" +
		path} {
		var meta struct {
			Issuer string `json:"issuer"`
			JWKS   string `json:"jwks_uri"`
		}
		switch err := s.getJSON(ctx, at, &meta); {
		case err != nil:
			failed = errors.Join(failed, err)
		case meta.Issuer != s.oauth.Issuer: // RFC 8414, section 3.3
			failed = errors.Join(failed, fmt.Errorf("%s is the metadata of another issuer", at))
		default:
			return meta.JWKS, nil
		}
	}
	return "", failed
}

func (s *keySet) getJSON(ctx context.Context, address string, into any) error {
	if !SafeURL(address) {
		return fmt.Errorf("%.200q is not https", address)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", address, answer.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument))
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s is not valid JSON, or is larger than %d bytes", address, maxDocument)
	}
	return nil
}

// SafeURL reports whether content of a URL provably comes from its host: the URL is https, or on this machine.
func SafeURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && Loopback(u.Hostname())
}

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}
