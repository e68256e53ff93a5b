package identity

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// Config says whose requests are taken. The zero value takes none.
type Config struct {
	Tokens       *Tokens          // nil takes no token of ours
	Certificates map[string]Grant // by the name that [Checker.Identify] finds in a certificate, such as "dns:ci.example.com"
	OAuth        *OAuth           // nil takes no JWT
	Rate         float64          // requests a second of one identity; 0 is DefaultRate
	// Address returns whom failed tries of a request are counted for; nil counts them for each connection.
	Address func(*http.Request) string
	Log     *slog.Logger // is told why the keys of an issuer or the store can't be read; nil is nobody
}

// The limits. An identity may ask for burstSeconds' worth of requests at once.
const (
	DefaultRate  = 1000.0
	burstSeconds = 4

	failEvery   = 6 * time.Second // a failed try of an address is forgotten in this time
	maxFailures = 10              // of one address at once, before the answer to the next one is to wait
	maxBuckets  = 10_000          // of each kind
)

// Checker identifies who sends requests. Its methods may be called concurrently.
type Checker struct {
	cfg      Config
	keys     *keySet // nil without OAuth
	requests *limits // by identity
	failures *limits // by address
	says     rate.Sometimes
	proofs   *limits // by address: of tries that failed with what others check, see Fail
}

// New returns a checker.
func New(c Config) *Checker {
	if c.Rate == 0 {
		c.Rate = DefaultRate
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Address == nil {
		c.Address = func(r *http.Request) string { return r.RemoteAddr }
	}
	k := &Checker{cfg: c, says: rate.Sometimes{Interval: time.Minute},
		requests: newLimits(rate.Limit(c.Rate), max(1, int(c.Rate*burstSeconds)), maxBuckets),
		failures: newLimits(rate.Every(failEvery), maxFailures, maxBuckets),
		proofs:   newLimits(rate.Every(failEvery), maxFailures, maxBuckets),
	}
	if c.OAuth != nil {
		k.keys = newKeySet(c.OAuth, func(err error) { c.Log.Warn("the keys of the OAuth issuer can't be fetched", "error", err) })
	}
	return k
}

var (
	errNone    = &door.Refused{Status: http.StatusUnauthorized, Text: "this needs a token", Hint: "send Authorization: Bearer TOKEN; sandboxmcp token create makes one"}
	errInvalid = &door.Refused{Status: http.StatusUnauthorized, Code: "invalid_token", Text: "the credentials are not valid", Hint: "sandboxmcp token list shows which tokens there are"}
	errLapsed  = &door.Refused{Status: errInvalid.Status, Code: errInvalid.Code, Text: errInvalid.Text, Hint: errInvalid.Hint} // right, and over: nobody has guessed
	errScope   = &door.Refused{Status: http.StatusForbidden, Code: "insufficient_scope", Text: "the token does not reach this server's operations", Hint: "ask the issuer for the scopes and a namespace"}
	errURL     = &door.Refused{Status: http.StatusBadRequest, Code: "invalid_request", Text: "a token stands in the URL, where logs and histories keep it", Hint: "revoke it, and send the next one in the header Authorization"}
)

// Identify returns who sends a request, by the one Authorization header that it may have or else by its client
// certificate. Each error is a *door.Refused.
func (c *Checker) Identify(r *http.Request) (Identity, error) {
	if tokenInURL(r.URL) {
		return Identity{}, errURL
	}
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 {
		i, err := c.certified(r)
		return c.limited(i, err)
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimLeft(token, " ")
	if ours, ok := FromE2B(token); ok {
		token = ours
	}
	i, err := Identity{}, error(errInvalid)
	if len(headers) == 1 && strings.EqualFold(scheme, "Bearer") && len(token) <= maxJWT {
		i, err = c.verify(r.Context(), token)
	}
	if errors.Is(err, errInvalid) { // nobody else's answer depends on how many there were
		if wait := c.failures.allow(c.cfg.Address(r)); wait > 0 {
			err = tooMany("too many tries failed", wait)
		}
	}
	return c.limited(i, err)
}

// verify returns the identity of a bearer token of either kind.
func (c *Checker) verify(ctx context.Context, token string) (i Identity, err error) {
	switch {
	case strings.HasPrefix(token, tokenPrefix) && c.cfg.Tokens != nil:
		i, err = c.cfg.Tokens.Verify(ctx, token)
	case c.keys != nil:
		i, err = c.cfg.OAuth.subject(ctx, c.keys, token)
	default:
		err = errInvalid
	}
	if _, refused := errors.AsType[*door.Refused](err); err == nil || refused {
		return i, err
	}
	if !errors.Is(err, errIssuer) && ctx.Err() == nil { // why keys can't be had is said when they are asked for
		c.says.Do(func() { c.cfg.Log.Error("credentials can't be checked", "error", err) })
	}
	return Identity{}, &door.Refused{Status: http.StatusServiceUnavailable, Text: "credentials can't be checked at the moment", Hint: "try again later; the server's log says why", Wait: time.Second}
}

// limited bounds the requests of an identity.
func (c *Checker) limited(i Identity, err error) (Identity, error) {
	if err != nil {
		return Identity{}, err
	}
	if wait := c.requests.allow(i.String()); wait > 0 {
		return Identity{}, tooMany("too many requests", wait)
	}
	return i, nil
}

func tooMany(text string, wait time.Duration) error {
	return &door.Refused{Status: http.StatusTooManyRequests, Text: text, Hint: "try again later", Wait: wait}
}

// tokenInURL reports whether a query has a token, by RFC 6750's name for it or by its look.
func tokenInURL(u *url.URL) bool {
	if u.RawQuery == "" {
		return false
	}
	query, err := url.ParseQuery(u.RawQuery)
	for name, values := range query {
		if name == "access_token" {
			return true
		}
		for _, v := range values {
			if strings.HasPrefix(v, tokenPrefix) || len(v) == e2bLength && strings.HasPrefix(v, e2bPrefix) {
				return true
			}
		}
	}
	return err != nil && (strings.Contains(u.RawQuery, "access_token") || strings.Contains(u.RawQuery, tokenPrefix))
}

// recheckEvery is how long an answer goes on after its token is revoked, at most.
const recheckEvery = 500 * time.Millisecond

// errEnded is why the context of a request ends whose credentials ended meanwhile.
var errEnded = errors.New("the credentials were revoked, or have ended")

// watch returns a context of an identity that ends when its credentials do: a stream of events may go on for days.
func (c *Checker) watch(ctx context.Context, i Identity) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, contextKey{}, identified{i, c}))
	next := func() time.Duration {
		if i.Expires.IsZero() {
			return recheckEvery
		}
		return max(0, min(recheckEvery, time.Until(i.Expires)))
	}
	var mu sync.Mutex // the timer is set before it is set again
	mu.Lock()
	defer mu.Unlock()
	var timer *time.Timer
	timer = time.AfterFunc(next(), func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case !c.isValid(i):
			cancel(errEnded)
		default:
			timer.Reset(next())
		}
	})
	return ctx, func(cause error) { timer.Stop(); cancel(cause) }
}

// Watch returns a context of an identity that ends when its credentials do, and whether they hold now: for those that
// were proved to another one, such as a page where a person has signed in.
func (c *Checker) Watch(ctx context.Context, i Identity) (context.Context, context.CancelCauseFunc, bool) {
	ctx, end := c.watch(ctx, i)
	return ctx, end, c.isValid(i)
}

// isValid reports whether credentials hold, as far as that can be told without them.
func (c *Checker) isValid(i Identity) bool {
	ended := !i.Expires.IsZero() && !time.Now().Before(i.Expires)
	return !ended && (i.Source != FromToken || c.cfg.Tokens != nil && c.cfg.Tokens.isValid(i))
}

// Middleware returns a handler that calls next for requests of somebody: their context has the identity, and ends when
// its credentials do. They have no Authorization header any more, so that nothing behind it can tell the token. Others
// are refused.
func (c *Checker) Middleware(next http.Handler) http.Handler { return c.middleware(next, c.refuse) }

// MiddlewareWith is Middleware for a protocol whose refusals have another form.
func (c *Checker) MiddlewareWith(next http.Handler, refuse func(w http.ResponseWriter, status int, text string)) http.Handler {
	return c.middleware(next, func(w http.ResponseWriter, e *door.Refused) { e.WriteWith(w, refuse) })
}

func (c *Checker) middleware(next http.Handler, refuse func(http.ResponseWriter, *door.Refused)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i, err := c.Identify(r)
		if err != nil {
			refuse(w, AsRefused(err))
			return
		}
		if err := door.Authenticate(r.Context(), i.String()); err != nil {
			refuse(w, AsRefused(err))
			return
		}
		ctx, done := c.watch(r.Context(), i)
		defer done(nil)
		r = r.WithContext(ctx)
		r.Header = r.Header.Clone()
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r)
	})
}

// Reidentify returns a context for what is asked with a capability that i was given, who was identified for it: it has the
// identity, and ends when its credentials do. The error, a *door.Refused, is that of credentials that have ended, or of
// too many requests.
func (c *Checker) Reidentify(ctx context.Context, i Identity) (context.Context, context.CancelCauseFunc, error) {
	if !c.isValid(i) {
		return nil, nil, errInvalid
	}
	if _, err := c.limited(i, nil); err != nil {
		return nil, nil, err
	}
	if err := door.Authenticate(ctx, i.String()); err != nil {
		return nil, nil, err
	}
	ctx, done := c.watch(ctx, i)
	return ctx, done, nil
}

// AsRefused returns an error of Identify or Again, or of [door.Prove], as what it is.
func AsRefused(err error) *door.Refused {
	if e, ok := errors.AsType[*door.Refused](err); ok {
		return e
	}
	return &door.Refused{Status: http.StatusInternalServerError, Text: "this is a bug of sandboxmcp"}
}

// refuse answers a request that is not taken.
func (c *Checker) refuse(w http.ResponseWriter, e *door.Refused) {
	h := w.Header()
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		h.Set("WWW-Authenticate", c.challenge(e.Code))
	}
	e.RetryAfter(h)
	door.Reply(w, e.Status, map[string]string{"error": e.Text, "hint": e.Hint})
}

// challenge is the value of WWW-Authenticate (RFC 6750, RFC 9728).
func (c *Checker) challenge(code string) string {
	parts := []string{`realm="sandboxmcp"`}
	if code != "" {
		parts = append(parts, `error="`+code+`"`)
	}
	if o := c.cfg.OAuth; o != nil {
		if len(o.Scopes) > 0 {
			parts = append(parts, `scope="`+strings.Join(o.Scopes, " ")+`"`)
		}
		parts = append(parts, `resource_metadata="`+o.metadataURL()+`"`)
	}
	return "Bearer " + strings.Join(parts, ", ")
}

// MetadataPath is where [Checker.Metadata] is served, with and without the path of the resource behind it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadataURL puts MetadataPath between the host and the path of the resource (RFC 9728, section 3.1).
func (o *OAuth) metadataURL() string {
	u, err := url.Parse(o.Resource)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: MetadataPath + strings.TrimSuffix(u.Path, "/")}).String()
}

// Metadata returns the handler of the document that says which issuer clients of OAuth get tokens from (RFC 9728). It
// needs no identity. Without OAuth everything is not found.
func (c *Checker) Metadata() http.Handler {
	o := c.cfg.OAuth
	if o == nil {
		return http.HandlerFunc(noMetadata)
	}
	own, _ := url.Parse(o.metadataURL())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Path != MetadataPath && r.URL.Path != own.Path {
			noMetadata(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=3600")
		_ = json.NewEncoder(w).Encode(struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported,omitempty"`
			Methods  []string `json:"bearer_methods_supported"`
			Name     string   `json:"resource_name"`
		}{o.Resource, []string{o.Issuer}, o.Scopes, []string{"header"}, "sandboxmcp"})
	})
}

func noMetadata(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write([]byte(`{"error":"there is no metadata at this path","hint":"send Authorization: Bearer TOKEN; sandboxmcp token create makes one"}` + "\n"))
}
