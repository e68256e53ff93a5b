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

// OAuth makes this server a resource server of OAuth 2.1, as the authorization part of the MCP specification has it: an
// external issuer gives clients JWTs for it.
type OAuth struct {
	Issuer     string   // URL, exactly as tokens have it
	Resource   string   // URL of this server's /mcp as clients have it; the audience of tokens, unless Audience says otherwise
	Audience   string   // "" is Resource
	JWKS       string   // URL of the issuer's keys; "" asks the issuer's metadata
	Namespaces string   // the claim that lists the namespaces; "" is "namespaces"
	All        string   // what stands in that claim, alone, for all namespaces of a person; "" is nothing
	Scopes     []string // that a token must have, all of them
	Person     string   // the scope of tokens of persons; "" takes all for agents
}

// skew is by how much the clocks of the issuer and of this machine may differ.
const skew = time.Minute

// maxJWT is the longest header that carries a JWT, in bytes.
const maxJWT = 16 << 10

// subject returns who a JWT is for. It is errInvalid for a token that the issuer has not signed, errLapsed for one that
// it has signed for another time or server, and errScope for a sound one that lacks a scope or a namespace.
func (o *OAuth) subject(ctx context.Context, keys *keySet, text string) (Identity, error) {
	// None of the signatures is one that a public key, taken for a secret, could make.
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

// namespaces returns those of a claim's value: a list of names, or the one value that the operator has named for all.
// Anything else is none.
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

// isCurrent checks the claims that a token must have. RFC 9068 asks for the time of issue and not for nbf, so one of both
// must be there, and neither may lie in the future.
func (o *OAuth) isCurrent(c jwt.Claims, at time.Time) bool {
	audience := cmp.Or(o.Audience, o.Resource)
	if c.Issuer == "" || c.Expiry == nil || c.NotBefore == nil && c.IssuedAt == nil || audience == "" {
		return false
	}
	return c.ValidateWithLeeway(jwt.Expected{Issuer: o.Issuer, AnyAudience: jwt.Audience{audience}, Time: at}, skew) == nil
}

// isAccessToken refuses JWTs that say that they are for something else, such as a logout token.
func isAccessToken(h jose.Header) bool {
	kind, _ := h.ExtraHeaders[jose.HeaderType].(string)
	kind = strings.TrimPrefix(strings.ToLower(kind), "application/")
	return kind == "" || kind == "jwt" || kind == "at+jwt"
}

// keyFits reports whether a key is one for signatures by an algorithm. The library checks the type of the key, too, and
// the curve.
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

// words returns a claim that is a list, or words with spaces between.
func words(value any) []string {
	switch c := value.(type) {
	case string:
		return strings.Fields(c)
	case []any:
		all := make([]string, 0, len(c))
		for _, w := range c {
			text, _ := w.(string) // "" is no namespace, and no scope
			all = append(all, text)
		}
		return all
	}
	return nil
}

// isPrintable reports whether a subject is fit for a line of the log.
func isPrintable(subject string) bool {
	return subject != "" && len(subject) <= 256 && utf8.ValidString(subject) && strings.IndexFunc(subject, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}
