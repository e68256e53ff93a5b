package relay

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// checkCredentials refuses requests with other credentials to a name that requires a secret. Otherwise an attacker
// could make the program send data to the attacker's account at an allowed host.
//
// Credentials are recognized by the names of headers and of parameters in the query. It misses those in the path, in
// bodies, in headers with harmless names, and in WebSocket frames, and data that anyone can leave at the name. So it
// narrows this leak, but does not close it.
func checkCredentials(r *http.Request, bound []Secret) error {
	if !slices.ContainsFunc(bound, func(s Secret) bool { return s.Require }) {
		return nil
	}
	own := func(what, name string) error {
		return refuse("the %s %s has a credential that is not the secret of this name: "+
			"send the placeholder that the program was given, alone", what, quoteShort(name))
	}
	for name, values := range r.Header {
		for _, v := range values {
			switch {
			case name == "Authorization" && isBesideKey(v, bound):
				return refuse("beside the placeholder in the basic authentication is what looks like another credential: " +
					"if it is needed, it has to be a secret of this name, too")
			case carriesCredentials(name) && !isPlaceholder(name, v, bound),
				name == "Sec-Websocket-Protocol" && !areHarmlessProtocols(v, bound):
				return own("header", name)
			}
		}
	}
	for name := range r.Trailer {
		if carriesCredentials(name) {
			return own("trailer", name)
		}
	}
	// Some servers treat a semicolon as an ampersand: both readings are checked.
	for _, separators := range []string{"&", "&;"} {
		for pair := range strings.FieldsFuncSeq(r.URL.RawQuery, func(c rune) bool { return strings.ContainsRune(separators, c) }) {
			name, value, _ := strings.Cut(pair, "=")
			name, value = unescaped(name), unescaped(value)
			if carriesCredentials(name) && value != "" && !isPlaceholder("", value, bound) {
				return own("parameter", name)
			}
		}
	}
	return nil
}

func unescaped(s string) string {
	if u, err := url.QueryUnescape(s); err == nil {
		return u
	}
	return s
}

// harmlessNames are names that only look like credentials.
var harmlessNames = []string{
	"sec-websocket-key", "idempotency-key", "x-idempotency-key", "sort-key", "partition-key", "cache-key",
	"page-token", "next-page-token", "next-token", "continuation-token", "sync-token",
}

// credentialWords are parts of the names of credential headers, in lower case with hyphens.
var credentialWords = []string{
	"token", "secret", "passw", "passphrase", "signature", "credential", "api-key", "access-key", "authoriz", "authent", "jwt", "bearer",
}

// tokenCounts removes words about other kinds of tokens.
var tokenCounts = strings.NewReplacer("tokens", "", "tokeniz", "")

// carriesCredentials reports whether a header or a parameter of this name, in any case, carries credentials.
func carriesCredentials(name string) bool {
	name = hyphenated(name)
	if slices.Contains(harmlessNames, name) {
		return false
	}
	if name == "cookie" || strings.HasPrefix(name, "x-amz-") { // presigned requests
		return true
	}
	counted := tokenCounts.Replace(name)
	for _, c := range credentialWords {
		if strings.Contains(counted, c) {
			return true
		}
	}
	words := strings.Split(name, "-")
	switch words[len(words)-1] {
	case "sig", "hmac", "pwd", "pass", "pat", "otp", "appid":
		return true
	}
	return strings.HasSuffix(name, "key") || slices.Contains(words, "auth")
}

// hyphenated turns apiKey, api_key, api.key and api[key] into api-key.
func hyphenated(name string) string {
	return strings.ToLower(humps().ReplaceAllString(separators.Replace(name), "$1-$2"))
}

var (
	humps      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([a-z])([A-Z])`) })
	separators = strings.NewReplacer("_", "-", ".", "-", "[", "-", " ", "-", ":", "-", "]", "")
)

// placeholderContext matches the text allowed around a placeholder: a scheme, such as Bearer, and the name of a
// parameter.
var placeholderContext = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[A-Za-z][A-Za-z-]{0,23} +)?(?:[A-Za-z_]{1,24}=)?("?)\*("?)$`)
})

// isPlaceholder reports whether value, of a header that carries credentials, is the placeholder of a secret bound to
// the name, without another possible credential. In Basic, user or password may be other text, but see isBesideKey.
func isPlaceholder(header, value string, bound []Secret) bool {
	if header == "Cookie" {
		for pair := range strings.SplitSeq(value, ";") {
			if _, v, ok := strings.Cut(pair, "="); !ok || !isOnePlaceholder(v, bound) {
				return false
			}
		}
		return true
	}
	if header == "Authorization" {
		if text, ok := decodeBasic(value); ok {
			user, password, _ := strings.Cut(text, ":")
			return isOnePlaceholder(user, bound) || isOnePlaceholder(password, bound)
		}
	}
	return isOnePlaceholder(value, bound)
}

func isOnePlaceholder(value string, bound []Secret) bool {
	value = strings.TrimSpace(value)
	for _, s := range bound {
		if s.Placeholder == "" {
			continue
		}
		before, after, found := strings.Cut(value, s.Placeholder)
		if m := placeholderContext().FindStringSubmatch(before + "*" + after); found && m != nil && m[1] == m[2] {
			return true
		}
	}
	return false
}

const (
	minKey      = 16 // minimum bytes of a service's key
	leastDigits = 2
)

// looksLikeKey reports whether text may be a service's key rather than a name, address or word: it is long, and has
// digits.
func looksLikeKey(text string) bool {
	digits := 0
	for i := range len(text) {
		if text[i] >= '0' && text[i] <= '9' {
			digits++
		}
	}
	return len(text) >= minKey && digits >= leastDigits && !strings.Contains(text, "@")
}

// isBesideKey reports whether one half of Basic credentials is a placeholder and the other looks like a key. Many
// services use one half as the key and ignore the other.
func isBesideKey(v string, bound []Secret) bool {
	text, ok := decodeBasic(v)
	if !ok {
		return false
	}
	user, password, _ := strings.Cut(text, ":")
	return isOnePlaceholder(user, bound) && !isOnePlaceholder(password, bound) && looksLikeKey(password) ||
		isOnePlaceholder(password, bound) && !isOnePlaceholder(user, bound) && looksLikeKey(user)
}

// areHarmlessProtocols reports whether a list of WebSocket protocols has no credentials. Browsers can set no other
// WebSocket header, so services accept credentials there: after a prefix, or encoded.
func areHarmlessProtocols(list string, bound []Secret) bool {
	for protocol := range strings.SplitSeq(list, ",") {
		protocol = strings.TrimSpace(protocol)
		for _, s := range bound {
			if before, ok := strings.CutSuffix(protocol, s.Placeholder); ok && s.Placeholder != "" && !looksLikeKey(before) {
				protocol = ""
			}
		}
		if looksLikeKey(protocol) || protocol != "" && carriesCredentials(protocol) {
			return false
		}
	}
	return true
}
