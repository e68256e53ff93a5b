package tokens

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// isPlausible reports whether a secret looks random. Examples in manuals repeat one character, count up, or have a
// placeholder word.
func isPlausible(t *token) bool { return looksRandom(t.secret, 2.7) }

// looksRandom reports whether a secret has at least bits per byte, and no placeholder word: one in some thousands of
// random texts has one.
func looksRandom(s []byte, bits float64) bool {
	return entropy(s) >= bits && !containsAny(s, "example", "xxxx", "....", "****", "placeholder", "redacted", "dummy", "changeme",
		"your-", "your_", "yourtoken", "sandboxmcp_", "000000", "12345678", "abcdefgh")
}

func containsAny(text []byte, words ...string) bool {
	text = bytes.ToLower(text)
	return slices.ContainsFunc(words, func(w string) bool { return bytes.Contains(text, []byte(w)) })
}

// entropy returns the bits per byte, by the frequencies of the bytes in s.
func entropy(s []byte) float64 {
	var counts [256]float64
	for _, b := range s {
		counts[b]++
	}
	var bits float64
	for _, n := range counts {
		if n > 0 {
			bits -= n / float64(len(s)) * math.Log2(n/float64(len(s)))
		}
	}
	return bits
}

// isNamedSecret reports whether t is plausible, and its name that of a secret, not of an id or a sum.
func isNamedSecret(t *token) bool {
	name := t.whole[:len(t.whole)-len(t.secret)]
	return !containsAny(name, "public") && containsAny(name, "secret", "key", "token", "pass", "auth") && isPlausible(t)
}

// isNumbered: Slack's tokens begin with numbers, which say little each, and words with hyphens do not.
func isNumbered(t *token) bool {
	return bytes.ContainsAny(t.secret, "0123456789") && looksRandom(t.secret, 1.5)
}

// isMixed: random letters of both cases, where a name in a program could be as long.
func isMixed(t *token) bool {
	return isPlausible(t) && !bytes.Equal(t.secret, bytes.ToUpper(t.secret)) && !bytes.Equal(t.secret, bytes.ToLower(t.secret))
}

// isOldVault: the name of a method may be as long, but its letters change their case less often.
func isOldVault(t *token) bool {
	words := runs().FindAll(t.secret, -1)
	return len(words) > 10 && isNumbered(t) && entropy(t.secret) >= 3.5
}

var (
	runs   = lazy.Regexp("[0-9]+|[A-Z]+|[a-z]+")
	folded = lazy.Regexp(`[a-zA-Z0-9+/_-]{32}\r*\n$`)
	header = lazy.Regexp(`^\{(?s:.*)"alg"\s*:\s*"[^"](?s:.*)\}\s*$`)
)

// isUnfolded: a line of folded base64 looks like Square's tokens, but lines like it stand before it.
func isUnfolded(t *token) bool {
	return isPlausible(t) && !folded().Match(t.behind)
}

// hasHeader: the first part of a JWT or a JWE is JSON that names an algorithm.
func hasHeader(t *token) bool {
	part, _, _ := bytes.Cut(t.whole, []byte("."))
	text, err := base64.RawURLEncoding.DecodeString(string(part))
	return err == nil && header().Match(text)
}

// isKeyBody: the first 32 characters of a key's body are no pattern.
func isKeyBody(t *token) bool { return looksRandom(t.secret[len(t.secret)-32:], 3) }

// isPassword: the password in a URL is not the user's name, a variable, or a placeholder of a manual.
func isPassword(t *token) bool {
	user, low := t.whole[len("://"):len(t.whole)-len(t.secret)-1], bytes.ToLower(t.secret)
	return entropy(t.secret) >= 1.5 && !containsAny(low, "xxxx", "sandboxmcp_", "12345678") &&
		!bytes.EqualFold(user, low) && !variable().Match(t.secret) &&
		!slices.Contains(strings.Fields(words), strings.Trim(string(low), "_-"))
}

// variable is where a program or a manual would put a password: ${NAME}, %s, [PASSWORD].
var variable = lazy.Regexp(`^(?:[{[(*]|%.?[^0-9a-fA-F]|\$(?:[{(]|[A-Z_0-9]*$|[^A-Z]*$))|\$\{|\*\*\*`)

// words are placeholders for passwords in manuals.
const words = `password passwd passw0rd mypassword my-password my_password mypass yourpassword your-password your_password
	dbpassword db_password userpassword secret mysecret mysecretpassword changeme change-me change_me changeit
	example admin postgres mysql mariadb mongo mongodb redis rabbitmq guest token access_token access-token
	your_token your-token yourtoken api_key apikey api-key x-oauth-basic redacted hidden dummy placeholder username`

// escape is the end of an escape in JSON, a URL or a string, or of a colour, as bytes or as a program writes it in
// JSON.
var escape = lazy.Regexp(`(?:\\[abefnrtv]|(?:%|\\x|\\u00)[0-9a-fA-F]{2}|(?:\x1b|1b|1B|033|\\e)\[[0-9;:]*m)$`)
