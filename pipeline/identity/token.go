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

// A bearer token is smcp_ID_SECRETCHECK, in capitals and the digits 2 to 7. The id finds its record. The secret has
// 220 bits of the system's random generator, and 40 bits of a MAC of the preceding text, whose key is in the record.
// The check is a CRC-32 of the preceding text, which distinguishes a mistyped token from a wrong one. Nobody can
// create a secret with a valid MAC without the key, not even for a known id: so guesses cost the server only a hash,
// and Argon2 runs only for tokens that the server created. With the key, an attacker still lacks the 220 bits.
// vault/tokens has the pattern for redaction.
const (
	tokenPrefix  = "smcp_"
	idLength     = 10
	secretLength = 52
	macLength    = 8 // part of the secret
	checkLength  = 7
	tokenLength  = len(tokenPrefix) + idLength + 1 + secretLength + checkLength
)

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// newToken returns a new token and its id. The key belongs in its record.
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

// isGenuine reports whether the secret of a parsed token has a valid MAC.
func isGenuine(token string, key []byte) bool {
	end := tokenLength - checkLength - macLength
	return hmac.Equal([]byte(token[end:][:macLength]), []byte(macOf(key, token[:end])))
}

// parseToken returns the id of a token, and false if token is not a token, for example because it is mistyped.
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
	// Used is the time of its last use, to the hour; zero is never.
	Used time.Time `json:"used,omitzero"`
}

// Expired reports whether the token has expired at now.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Check returns an error if the name, the kind or the namespaces are invalid. It does not quote the name, which may
// be a token.
func (t Token) Check() error {
	if t.Name == "" || len(t.Name) > maxName || isID(t.Name) || !isPlain(t.Name, ".-_@") {
		return fmt.Errorf("the name is not valid: use at most %d letters, digits and . - _ @, with a letter or digit first", maxName)
	}
	return Grant{t.Kind, t.Namespaces}.Check()
}

// Maximum lengths of names, in bytes, and maximum number of namespaces of one identity.
const (
	maxName       = 64
	maxNamespace  = 128
	maxNamespaces = 100
)

// isPlain reports whether s begins with a letter or a digit, and otherwise contains only those and the characters in
// more.
func isPlain(s, more string) bool { return all(s[:1], "") && all(s, more) }

func all(s, more string) bool {
	return strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(more, c)
	}) < 0
}
