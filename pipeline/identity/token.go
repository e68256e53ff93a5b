package identity

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
)

// A bearer token is smcp_ID_SECRETCHECK, in capitals and the digits 2 to 7: the id finds its record, the secret has 260
// bits of the system's random generator, and the check is a CRC-32 of all before it, which tells a token that was typed
// or copied wrong from one that is wrong. vault/tokens has the pattern, so that redaction knows it.
const (
	tokenPrefix  = "smcp_"
	idLength     = 10
	secretLength = 52
	checkLength  = 7
	tokenLength  = len(tokenPrefix) + idLength + 1 + secretLength + checkLength
)

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// newToken returns a new token and its id.
func newToken() (token, id string) {
	id = rand.Text()[:idLength]
	body := tokenPrefix + id + "_" + rand.Text() + rand.Text() // 26 characters each
	return body + checkOf(body), id
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
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Kind       Kind      `json:"kind"`
	Namespaces []string  `json:"namespaces"`
	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires,omitzero"` // zero is never
	// Used is when it was last used, to the hour; zero is never.
	Used time.Time `json:"used,omitzero"`
}

// Expired reports whether the token's time was up at now.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Check returns what is wrong with the name, the kind or the namespaces. It does not quote the name, which may be a token.
func (t Token) Check() error {
	if t.Name == "" || len(t.Name) > maxName || isID(t.Name) || !plain(t.Name, ".-_@") {
		return fmt.Errorf("the name is not valid: use letters, digits and . - _ @, a letter or digit first, at most %d", maxName)
	}
	return checkGrant(t.Kind, t.Namespaces)
}

// The longest names, in bytes, and the most namespaces of one identity: enough for any sane use.
const (
	maxName       = 64
	maxNamespace  = 128
	maxNamespaces = 100
)

// checkGrant returns why nobody can have this kind and these namespaces.
func checkGrant(kind Kind, namespaces []string) error {
	switch {
	case kind != Agent && kind != Person:
		return fmt.Errorf("%.40q is no kind: use agent or person", string(kind))
	case kind == Agent && len(namespaces) == 0:
		return errors.New("an agent needs a namespace")
	case len(namespaces) > maxNamespaces:
		return fmt.Errorf("these are %d namespaces, more than %d", len(namespaces), maxNamespaces)
	}
	for i, n := range namespaces {
		switch {
		case n == "" || len(n) > maxNamespace || n[0] == '.' || !all(n, ".-_"):
			return fmt.Errorf("%.40q is no namespace: use letters, digits, -, _ and ., not a dot first", n)
		case slices.Contains(namespaces[:i], n):
			return fmt.Errorf("the namespace %s stands there twice", n)
		}
	}
	return nil
}

// plain reports whether s begins with a letter or a digit and has nothing else but those and more.
func plain(s, more string) bool { return all(s[:1], "") && all(s, more) }

func all(s, more string) bool {
	return strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(more, c)
	}) < 0
}
