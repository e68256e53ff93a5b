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

// Config configures the accepted credentials. The zero value accepts none.
type Config struct {
	Tokens       *Tokens          // nil accepts no tokens of ours
	Certificates map[string]Grant // by the name in a certificate, such as "dns:ci.example.com"; see certified
	OAuth        *OAuth           // nil accepts no JWTs
	Rate         float64          // requests per second of one identity; 0 is DefaultRate
	// Address returns the key that counts a request's failed attempts; nil counts them per connection.
	Address func(*http.Request) string
	Log     *slog.Logger // gets the errors of reading an issuer's keys or the store; nil logs nothing
}

// Limits. An identity may send the requests of burstSeconds at once.
const (
	DefaultRate  = 1000.0
	burstSeconds = 4

	failEvery   = 6 * time.Second // a failed attempt of an address expires after this time
	maxFailures = 10              // failed attempts of one address before the next one must wait
	maxBuckets  = 10_000          // buckets of each kind
)

// Checker identifies the senders of requests. Its methods may be called concurrently.
type Checker struct {
	cfg      Config
	keys     *keySet // nil without OAuth
	requests *limits // by identity
	failures *limits // by address
	logging  rate.Sometimes
	proofs   *limits // by address: failed attempts that other packages check, see Fail
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
	k := &Checker{cfg: c, logging: rate.Sometimes{Interval: time.Minute},
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
	errNone = &door.Refused{Status: http.StatusUnauthorized, Text: "a token is required",
		Hint: "send Authorization: Bearer TOKEN; create one with sandboxmcp token create"}
	errInvalid = &door.Refused{Status: http.StatusUnauthorized, Code: "invalid_token", Text: "the credentials are not valid",
		Hint: "sandboxmcp token list shows the tokens"}
	// valid but expired: not a guess
	errLapsed = &door.Refused{Status: errInvalid.Status, Code: errInvalid.Code, Text: errInvalid.Text, Hint: errInvalid.Hint}
	errScope  = &door.Refused{Status: http.StatusForbidden, Code: "insufficient_scope",
		Text: "the token lacks a scope or a namespace of this server", Hint: "ask the issuer for the scopes and a namespace"}
	errURL = &door.Refused{Status: http.StatusBadRequest, Code: "invalid_request",
		Text: "the URL contains a token, which logs and histories store", Hint: "revoke it, and send the next one in the header Authorization"}
)

// Identify returns the sender of a request, by its only Authorization header or else by its client certificate. Each
// error is a *door.Refused.
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
	if errors.Is(err, errInvalid) { // only invalid credentials count as failed attempts
		if wait := c.failures.allow(c.cfg.Address(r)); wait > 0 {
			err = tooMany("too many failed attempts", wait)
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
	if !errors.Is(err, errIssuer) && ctx.Err() == nil { // the key set logs its own errors
		c.logging.Do(func() { c.cfg.Log.Error("credentials can't be checked", "error", err) })
	}
	return Identity{}, &door.Refused{Status: http.StatusServiceUnavailable, Text: "credentials can't be checked at the moment",
		Hint: "try again later; the server's log has the reason", Wait: time.Second}
}

// limited applies the rate limit of an identity.
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

// tokenInURL reports whether a query contains a token, by the parameter name of RFC 6750 or by its format.
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

// recheckEvery bounds the time that an answer continues after its token is revoked.
const recheckEvery = 500 * time.Millisecond

// errEnded ends the context of a request whose credentials ended.
var errEnded = errors.New("the credentials were revoked or have expired")

// watch returns a context with an identity that ends with its credentials: an event stream may last for days.
func (c *Checker) watch(ctx context.Context, i Identity) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, contextKey{}, identified{i, c}))
	next := func() time.Duration {
		if i.Expires.IsZero() {
			return recheckEvery
		}
		return max(0, min(recheckEvery, time.Until(i.Expires)))
	}
	var mu sync.Mutex // guards timer: its function may run before the assignment
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

// Watch returns a context with an identity that ends with its credentials, and whether these are valid now: for
// credentials that were checked elsewhere, such as a page where a person has signed in.
func (c *Checker) Watch(ctx context.Context, i Identity) (context.Context, context.CancelCauseFunc, bool) {
	ctx, end := c.watch(ctx, i)
	return ctx, end, c.isValid(i)
}

// isValid reports whether credentials are still valid, as far as that is known without the credentials themselves.
func (c *Checker) isValid(i Identity) bool {
	ended := !i.Expires.IsZero() && !time.Now().Before(i.Expires)
	return !ended && (i.Source != FromToken || c.cfg.Tokens != nil && c.cfg.Tokens.isValid(i))
}

// Middleware returns a handler that calls next for identified requests: their context has the identity, and ends with
// its credentials. It removes their Authorization header, so that handlers can't leak the token. Other requests are
// refused.
func (c *Checker) Middleware(next http.Handler) http.Handler { return c.middleware(next, c.refuse) }

// MiddlewareWith is Middleware for a protocol with its own form of refusals.
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

// Reidentify returns a context for a request with a capability that the identity i received earlier: it has the
// identity, and ends with its credentials. The error, a *door.Refused, means that the credentials have ended, or that
// there are too many requests.
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

// AsRefused returns the *door.Refused in an error of Identify, Reidentify or [door.Authenticate].
func AsRefused(err error) *door.Refused {
	if e, ok := errors.AsType[*door.Refused](err); ok {
		return e
	}
	return &door.Refused{Status: http.StatusInternalServerError, Text: "this is a bug of sandboxmcp"}
}

// refuse answers a refused request.
func (c *Checker) refuse(w http.ResponseWriter, e *door.Refused) {
	h := w.Header()
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		h.Set("WWW-Authenticate", c.challenge(e.Code))
	}
	e.RetryAfter(h)
	door.Reply(w, e.Status, map[string]string{"error": e.Text, "hint": e.Hint})
}

// challenge returns the value of WWW-Authenticate (RFC 6750, RFC 9728).
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

// MetadataPath is the path of [Checker.Metadata], with or without the path of the resource after it.
const MetadataPath = "/.well-known/oauth-protected-resource"

// metadataURL inserts MetadataPath between the host and the path of the resource (RFC 9728, section 3.1).
func (o *OAuth) metadataURL() string {
	u, err := url.Parse(o.Resource)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: MetadataPath + strings.TrimSuffix(u.Path, "/")}).String()
}

// Metadata returns the handler of the document that names the issuer for OAuth clients (RFC 9728). It requires no
// identity. Without OAuth it answers 404.
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
	_, _ = w.Write([]byte(`{"error":"there is no metadata at this path","hint":"send Authorization: Bearer TOKEN; create one with sandboxmcp token create"}` + "\n"))
}
