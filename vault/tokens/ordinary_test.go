package tokens

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// ordinary returns program output that only looks like tokens.
func ordinary(s source) map[string]string {
	uuid := func() string {
		return s.random(8, hexes) + "-" + s.random(4, hexes) + "-4" + s.random(3, hexes) + "-a" + s.random(3, hexes) + "-" + s.random(12, hexes)
	}
	return map[string]string{
		"go.sum": "golang.org/x/mod v0.30.0 h1:" + s.random(43, std64) + "=\ngolang.org/x/mod v0.30.0/go.mod h1:" + s.random(43, std64) +
			"=\n",
		"package-lock": `"node_modules/npm_run": {"resolved": "https://registry.example.org/a/-/a-1.0.0.tgz", "integrity": "sha512-` +
			s.random(86, std64) + `=="}`,
		"yarn.lock": `"@babel/core@^7.0.0": resolved "https://host.example/@babel/core/-/core-7.0.0.tgz#` + s.random(40, hexes) + `"`,
		"git log": "commit " + s.random(40, hexes) + "\nAuthor: A U Thor <author@example.com>\nDate:   Mon Jan 5 10:00:00 2026 +0100\n\n " +
			"   linear: key " + s.random(7, hexes) + "\n",
		"uuid": "id=" + uuid() + " token_id: " + uuid() + " discord: " + uuid(),
		"base64": lines(s.random(5000, std64), "\n") + base64.StdEncoding.EncodeToString([]byte(s.random(3000, alnum))) +
			s.random(5000, url64),
		"zeros":      lines(s.random(64, std64)+"EAAA"+s.random(60, alnum)+"EAAA"+s.random(60, alnum), "\n"),
		"sums":       s.random(64, hexes) + "  linear.bin\n" + s.random(32, hexes) + "  discord.zip\nSHA256: " + s.random(64, hexes),
		"image":      "redis@sha256:" + s.random(64, hexes) + " twilio/cli:5.0 sha1:" + s.random(40, hexes),
		"javascript": `var s=this,t=s.prototype.hasOwnProperty,n=e.s.getElementsByClassName2x;s.ReadUint16LengthPrefixed();!function(e){e.eyJoin=SK.map(xoxb)}`,
		"code": "s.Last30DaysSearchInterest = float64(s1.Last30DaysSearchInterest)\nhf_model = " +
			"AutoModelForCausalLM.from_pretrained(hf_repository_name_or_path_to_files)\nnpm_config_registry=1 sk_live_mode_is_not_enabled glpat-",
		"urls": "http://localhost:8080/a http://[::1]:80/@x https://example.com:443/user@host git+ssh://git@github.com/a/b.git " +
			"https://user@host/ ftp://a/b:c@d mailto:me@example.com",
		"user urls": "postgres://user:password@localhost/db postgresql://postgres:postgres@db/app https://$USER:$PASSWORD@host " +
			"redis://:${REDIS_PASSWORD}@r amqp://guest:guest@mq https://[user]:[password]@h mysql://root:****@h http://u:%s@h http://name:<pass>@h",
		"placeholder": "https://me:sandboxmcp_" + s.random(26, abcLower+"234567") + "@api.example.com Bearer sandboxmcp_" +
			s.random(26, abcLower+"234567") + " https://u:" + Mark + "@h",
		"examples": strings.Join([]string{"AKIAIOSFODNN7" + "EXAMPLE", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
			"ghp_" + strings.Repeat("x", 36), "ghp_" + "1234567890abcdefghijklmnopqrstuvwxyz", "sk-proj-" + strings.Repeat("X", 60),
			"xoxb-your-token-goes-here", "xoxb-" + "not-a-real-token-at-all",
			"sk_test_" + "xxxxxxxxxxxxxxxxxxxxxxxx", "AIza" + strings.Repeat("*", 35), "AIza" + strings.Repeat("0", 35),
			"hf_" + strings.Repeat("a", 34), "glpat-" + strings.Repeat("x", 20),
			"glpat-your_access_token_123", "sk-ant-api03-" + strings.Repeat(".", 40), "SG." + "xxxxxxxxxxxxxxxxxxxxxx." + strings.Repeat("y", 43),
			"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9...", "https://hooks.slack.com/services/T00000000/B00000000/" + strings.Repeat("X", 24),
			"dop_v1_" + strings.Repeat("0", 64), "npm_" + "your_token_here", "Authorization: Bearer <token>"}, "\n"),
		"pem words": "-----BEGIN PRIVATE KEY-----\nThis is where the body of the key would stand, if this were not a text about " +
			"keys.\n-----END PRIVATE KEY-----",
		"pem dots": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA...\n-----END RSA PRIVATE KEY-----\n",
		"pem none": "if strings.HasPrefix(s, \"-----BEGIN RSA PRIVATE KEY-----\") { return }\n",
		"cert": "-----BEGIN CERTIFICATE-----\n" + lines(s.random(800, std64), "\n") +
			"-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\n" + lines(s.random(160, std64), "\n") + "-----END PUBLIC KEY-----",
		"named": "aws_secret_name = \"prod/db\"\nlinear_hash = " + s.random(32, hexes) + "\ntwilio_account_sid=AC" + s.random(32, hexes) +
			"\nDISCORD_PUBLIC_KEY=" + s.random(32, hexes) + "\n",
		"ssh": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA" + s.random(44, std64) + " me@host\nSHA256:" + s.random(43, std64),
		"no header": b64(`{"typ":"JWT"}`+s.random(9, alnum)) + "." + b64(`{"sub":"1234567890"}`) + "." + s.random(43, url64) +
			" eyJoin.eyJoinMoreThanSeventeen.x",
		"xml":    `<?xml version="1.0"?><a href="data:image/png;base64,iVBORw0KGgo` + s.random(900, std64) + `">`,
		"binary": s.random(100, "\x00\x01\xfe\xff\x80 eyJs.g:/=-"),
		"dashes": strings.Repeat("-", 500) + " BEGIN " + strings.Repeat("=", 80),
		"times":  fmt.Sprintf("12:34:56 %d:AAPL bot%d:AAAA", s.IntN(1e9), s.IntN(1e9)),
	}
}

// TestOrdinary: ordinary output is not changed.
func TestOrdinary(t *testing.T) {
	for seed := range uint64(200) {
		for name, text := range ordinary(newSource(seed)) {
			if got := kindsIn(text); got != nil {
				t.Fatalf("%s: %q in\n%s\n%s", name, got, text, masked(text))
			}
			if got := masked(text); got != text {
				t.Fatalf("%s: %q became %q", name, text, got)
			}
		}
	}
}

// TestCutKey: a key without its last line is removed with all possible text of a key, and the text after that
// stays.
func TestCutKey(t *testing.T) {
	text := "-----BEGIN RSA " + "PRIVATE KEY-----\n" + lines(newSource(1).random(1000, std64), "\n")
	prose := "The program goes on, and says a good deal more in words like these, on one line.\n"
	got := masked(text + prose + prose)
	if !strings.HasPrefix(got, "-----BEGIN RSA PRIVATE KEY-----"+Mark) ||
		!strings.HasSuffix(got, "says a good deal more in words like these, on one line.\n"+prose) {
		t.Errorf("got %q", got)
	}
}
