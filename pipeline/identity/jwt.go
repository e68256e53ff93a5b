package identity

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// OAuth makes this server a resource server of OAuth 2.1, as the authorization part of the MCP specification
// describes: an external issuer gives clients JWTs for it.
type OAuth struct {
	Issuer     string   // URL, exactly as in tokens
	Resource   string   // URL of this server's /mcp for clients; the audience of tokens if Audience is ""
	Audience   string   // "" is Resource
	JWKS       string   // URL of the issuer's keys; "" reads it from the issuer's metadata
	Namespaces string   // claim with the list of namespaces; "" is "namespaces"
	All        string   // value of that claim, alone, that means all namespaces, for persons; "" disables it
	Scopes     []string // scopes that a token must have
	Person     string   // scope of persons' tokens; "" treats all tokens as agents'
}

// skew bounds the difference between the clocks of the issuer and of this machine.
const skew = time.Minute

// maxJWT bounds a header with a JWT, in bytes.
const maxJWT = 16 << 10

// subject returns the identity of a JWT. The error is errInvalid for a token that the issuer has not signed,
// errLapsed for a signed one for another time or server, and errScope for a valid one without a required scope or
// namespace.
func (o *OAuth) subject(ctx context.Context, keys *keySet, text string) (Identity, error) {
	// None of these algorithms uses a shared secret, for which a public key could be misused.
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA})
	if err != nil || len(token.Headers) != 1 || !isAccessToken(token.Headers[0]) {
		return Identity{}, errInvalid
	}
	head := token.Headers[0]
	found, err := keys.findKeys(ctx, head.KeyID)
	if err != nil {
		return Identity{}, err
	}
	var claims jwt.Claims
	var more map[string]any
	err = errInvalid
	for _, k := range found {
		if keyFits(k, head.Algorithm) {
			if err = token.Claims(k.Key, &claims, &more); err == nil {
				break
			}
		}
	}
	if err != nil {
		return Identity{}, errInvalid
	}
	if !o.isCurrent(claims, time.Now()) || !isPrintable(claims.Subject) {
		return Identity{}, errLapsed
	}
	scopes := append(words(more["scope"]), words(more["scp"])...)
	for _, s := range o.Scopes {
		if !slices.Contains(scopes, s) {
			return Identity{}, errScope
		}
	}
	i := Identity{Name: claims.Subject, Kind: Agent, Source: FromJWT, Expires: claims.Expiry.Time().Add(skew)}
	if o.Person != "" && slices.Contains(scopes, o.Person) {
		i.Kind = Person
	}
	i.Namespaces = o.namespaces(more[cmp.Or(o.Namespaces, "namespaces")])
	if (Grant{i.Kind, i.Namespaces}).Check() != nil {
		return Identity{}, errScope
	}
	return i, nil
}

// namespaces returns the namespaces of a claim's value: a list of names, or the one value that means all. Any other
// value gives none.
func (o *OAuth) namespaces(value any) Namespaces {
	if text, ok := value.(string); ok {
		value = []any{text}
		if text != o.All {
			return Namespaces{}
		}
	}
	list, _ := value.([]any)
	var names []string
	for _, one := range list {
		name, ok := one.(string)
		switch {
		case !ok || name == "":
			return Namespaces{}
		case name == o.All && len(list) > 1:
			return Namespaces{}
		case name == o.All:
			return All()
		}
		names = append(names, name)
	}
	return Only(names...)
}

// isCurrent checks the required claims. RFC 9068 requires the time of issue and not nbf, so one of them must be
// present, and neither may be in the future.
func (o *OAuth) isCurrent(c jwt.Claims, at time.Time) bool {
	audience := cmp.Or(o.Audience, o.Resource)
	if c.Issuer == "" || c.Expiry == nil || c.NotBefore == nil && c.IssuedAt == nil || audience == "" {
		return false
	}
	return c.ValidateWithLeeway(jwt.Expected{Issuer: o.Issuer, AnyAudience: jwt.Audience{audience}, Time: at}, skew) == nil
}

// isAccessToken returns false for JWTs of another type, such as logout tokens.
func isAccessToken(h jose.Header) bool {
	kind, _ := h.ExtraHeaders[jose.HeaderType].(string)
	kind = strings.TrimPrefix(strings.ToLower(kind), "application/")
	return kind == "" || kind == "jwt" || kind == "at+jwt"
}

// keyFits reports whether a key is for signatures of an algorithm. The library also checks its type and its curve.
func keyFits(k jose.JSONWebKey, algorithm string) bool {
	if k.Use != "" && k.Use != "sig" || k.Algorithm != "" && k.Algorithm != algorithm {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return algorithm == string(jose.RS256) && key.N.BitLen() >= 2048
	case *ecdsa.PublicKey:
		return algorithm == string(jose.ES256)
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}

// words returns the values of a claim: a list, or words separated by spaces.
func words(value any) []string {
	switch c := value.(type) {
	case string:
		return strings.Fields(c)
	case []any:
		all := make([]string, 0, len(c))
		for _, w := range c {
			text, _ := w.(string) // "" is not a valid namespace or scope
			all = append(all, text)
		}
		return all
	}
	return nil
}

// isPrintable reports whether a subject can be written to a line of the log.
func isPrintable(subject string) bool {
	return subject != "" && len(subject) <= 256 && utf8.ValidString(subject) &&
		strings.IndexFunc(subject, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}
