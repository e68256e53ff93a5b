package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

// A bearer token is smcp_ID_SECRETCHECK, in capitals and the digits 2 to 7: the id finds its record, the secret has 220
// bits of the system's random generator and 40 of a MAC of what is before them, whose key the record has, and the check
// is a CRC-32 of all before it, which tells a token that was typed or copied wrong from one that is wrong. Without the
// key nobody makes a secret with the right MAC, also for an id that they know: guesses cost the server a hash, and
// Argon2 is left to tokens that it has made itself. Whoever has read the key still lacks the 220 bits. vault/tokens has
// the pattern, so that redaction knows it.
const (
	tokenPrefix  = "smcp_"
	idLength     = 10
	secretLength = 52
	macLength    = 8 // of the secret
	checkLength  = 7
	tokenLength  = len(tokenPrefix) + idLength + 1 + secretLength + checkLength
)

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// newToken returns a new token, whose record has the key, and its id.
func newToken(key []byte) (token, id string) {
	id = rand.Text()[:idLength]
	body := tokenPrefix + id + "_" + (rand.Text() + rand.Text())[:secretLength-macLength]
	body += macOf(key, body)
	return body + checkOf(body), id
}

func macOf(key []byte, body string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(body))
	return base32Text.EncodeToString(mac.Sum(nil))[:macLength]
}

// isGenuine reports whether the secret of a token that was parsed has the right MAC.
func isGenuine(token string, key []byte) bool {
	end := tokenLength - checkLength - macLength
	return hmac.Equal([]byte(token[end:][:macLength]), []byte(macOf(key, token[:end])))
}

// parseToken returns the id of a token, and false where it is none, as after a typing error.
func parseToken(token string) (id string, ok bool) {
	if len(token) != tokenLength || !strings.HasPrefix(token, tokenPrefix) || token[len(tokenPrefix)+idLength] != '_' {
		return "", false
	}
	body, check := token[:tokenLength-checkLength], token[tokenLength-checkLength:]
	id = body[len(tokenPrefix):][:idLength]
	return id, check == checkOf(body) && isID(id)
}

func checkOf(body string) string {
	return base32Text.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body))))
}

func isID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// Token is a bearer token, without its secret.
type Token struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Kind       Kind       `json:"kind"`
	Namespaces Namespaces `json:"namespaces"`
	Created    time.Time  `json:"created"`
	Expires    time.Time  `json:"expires,omitzero"` // zero is never
	// Used is when it was last used, to the hour; zero is never.
	Used time.Time `json:"used,omitzero"`
}

// Expired reports whether the token's time was up at now.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Check returns what is wrong with the name, the kind or the namespaces. It does not quote the name, which may be a
// token.
func (t Token) Check() error {
	if t.Name == "" || len(t.Name) > maxName || isID(t.Name) || !isPlain(t.Name, ".-_@") {
		return fmt.Errorf("the name is not valid: use letters, digits and . - _ @, a letter or digit first, at most %d", maxName)
	}
	return Grant{t.Kind, t.Namespaces}.Check()
}

// The longest names, in bytes, and the most namespaces of one identity: enough for any sane use.
const (
	maxName       = 64
	maxNamespace  = 128
	maxNamespaces = 100
)

// isPlain reports whether s begins with a letter or a digit and has nothing else but those and more.
func isPlain(s, more string) bool { return all(s[:1], "") && all(s, more) }

func all(s, more string) bool {
	return strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(more, c)
	}) < 0
}
