package tokens

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// webToken returns the format of a JWT, or a JWE: a header in base64 that is JSON with an algorithm, and the parts
// behind it.
func webToken() *format {
	return &format{kind: "a JSON web token", begins: []string{"eyJ"}, next: []*set{base64URL}, apart: base64URL,
		pieces: []piece{run(base64URL, 12, 2048), {text: "."}, run(base64URL, 10, 10), run(base64URL, 0, 0),
			{text: "."}, run(base64URL, 1, 0), {text: "."}, run(base64URL, 1, 0), {text: "."}, run(base64URL, 1, 0)},
		sure: 3, check: hasHeader}
}

// webTokenSpaced is the same with a space or a line end in the header's JSON.
func webTokenSpaced() *format {
	f := webToken()
	f.begins, f.next = []string{"eyAi", "ewog", "ewoi", "ewoJ", "ew0K"}, nil
	return f
}

func hasHeader(t token) bool {
	part, _, _ := bytes.Cut(t.whole, []byte("."))
	text, err := base64.RawURLEncoding.DecodeString(string(part))
	var header struct {
		Alg string `json:"alg"`
	}
	return err == nil && json.Unmarshal(text, &header) == nil && header.Alg != ""
}

// privateKey is the body of a private key in PEM or PGP's armour. Its first and last line stay.
func privateKey() *format {
	return &format{kind: "a private key", begins: []string{"BEGIN "},
		pieces: []piece{run(bytesOf("A-Za-z0-9 _"), 0, 100), {text: "----"}, run(bytesOf("-"), 0, 1),
			{set: armour, min: 64, max: 64, key: true}, {set: armour, max: 64 << 10, key: true}},
		sure: 4, public: 3, check: keyBody}
}

// armour has the bytes between the first and the last line of a key, also of a string in a program.
var armour = bytesOf("a-zA-Z0-9+/= \t\r\n\\\"',:.;()@<>-")

func keyBody(t token) bool {
	header, _, _ := bytes.Cut(t.whole, []byte("----"))
	if !bytes.HasSuffix(t.behind, []byte("-----")) && !bytes.HasSuffix(t.behind, []byte("---- ")) ||
		!bytes.Contains(bytes.ToUpper(header), []byte("PRIVATE KEY")) || regular(t.secret) || entropy(t.secret) < 3 {
		return false
	}
	for _, word := range []string{"Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Subject:", "Charset:"} {
		if bytes.Contains(t.secret, []byte(word)) {
			return true
		}
	}
	n := 0
	for _, b := range t.secret {
		if n++; !base64Std[b] {
			n = 0
		}
		if n == 32 {
			return true
		}
	}
	return false
}

// withPassword is a URL with a password, which is its only secret part.
func withPassword() *format {
	user := bytesOf("a-zA-Z0-9._~%!$&*+;=-")
	first := bytesOf("a-zA-Z0-9._~%!$&*+;=:-")
	return &format{kind: "a URL with a password", begins: []string{"://"}, next: []*set{first},
		pieces: []piece{run(user, 0, 128), {text: ":"},
			{set: bytesOf("a-zA-Z0-9._~%!$&*+;=:,(){}[]^|-"), min: 5, max: 256, after: bytesOf("@")}},
		sure: 3, public: 2, check: realPassword}
}

func realPassword(t token) bool {
	n := len(t.behind)
	if n == 0 || !letters[t.behind[n-1]] || entropy(t.secret) < 1.5 || regular(t.secret) {
		return false
	}
	user := strings.ToLower(string(t.whole[len("://") : len(t.whole)-len(t.secret)-1]))
	password := string(t.secret)
	low := strings.ToLower(password)
	if variable(password) || low == user || strings.HasPrefix(low, "sandboxmcp_") || strings.Contains(low, "xxxx") {
		return false
	}
	return !slices.Contains(words, strings.Trim(low, "_-"))
}

// variable reports whether s is where a program or a manual would put a password: ${NAME}, %s, [PASSWORD].
func variable(s string) bool {
	switch s[0] {
	case '{', '[', '(', '*':
		return true
	case '%':
		return !anyHex[s[1]] || !anyHex[s[2]]
	case '$':
		name := strings.Trim(s[1:], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")
		return name == "" || strings.ToLower(s) == s || strings.ContainsAny(s[1:2], "{(")
	}
	return strings.Contains(s, "${") || strings.Contains(s, "***")
}

// words stand in manuals where a password would.
var words = []string{"password", "passwd", "passw0rd", "mypassword", "my-password", "my_password", "mypass", "yourpassword", "your-password", "your_password",
	"dbpassword", "db_password", "userpassword", "secret", "mysecret", "mysecretpassword", "changeme", "change-me", "change_me", "changeit",
	"example", "admin", "postgres", "mysql", "mariadb", "mongo", "mongodb", "redis", "rabbitmq", "guest", "token", "access_token", "access-token",
	"your_token", "your-token", "yourtoken", "api_key", "apikey", "api-key", "x-oauth-basic", "redacted", "hidden", "dummy", "placeholder", "username"}
