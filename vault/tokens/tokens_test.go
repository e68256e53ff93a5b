package tokens

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Alphabets of random tokens.
const (
	abcLower = "abcdefghijklmnopqrstuvwxyz"
	abcUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	num      = "0123456789"
	alnum    = abcLower + abcUpper + num
	hexes    = num + "abcdef"
	url64    = alnum + "-_"
	std64    = alnum + "+/"
)

// source draws the random parts of tokens, so that this file contains no token.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 7))} }

func (s source) random(n int, from string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[s.IntN(len(from))]
	}
	return string(b)
}

// lines returns text folded at 64 characters.
func lines(text, end string) string {
	var b strings.Builder
	for len(text) > 0 {
		n := min(64, len(text))
		b.WriteString(text[:n] + end)
		text = text[n:]
	}
	return b.String()
}

func b64(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// sample is a text that contains one token.
type sample struct {
	kind         string
	before, text string // text is the part that must be redacted
	after        string
}

// samples returns one sample per format.
func samples(s source) []sample {
	jwt := b64(`{"alg":"RS256","typ":"JWT","kid":"`+s.random(8, alnum)+`"}`) + "." +
		b64(`{"sub":"`+s.random(20, alnum)+`","exp":1700000000}`) + "." + s.random(86, url64)
	key := s.random(64*12+20, std64) + "=="
	sampleOf := func(kind string, parts ...string) sample { return sample{kind: kind, text: strings.Join(parts, "")} }
	user := base64.RawStdEncoding.EncodeToString([]byte(fmt.Sprint(100000000000000000 + s.Int64N(900000000000000000))))
	all := []sample{
		sampleOf("a GitHub token", "github", "_pat_", s.random(22, alnum), "_", s.random(59, alnum)),
		sampleOf("an AWS access key id", "AK", "IA", s.random(16, abcUpper+"234567")),
		sampleOf("an AWS access key id", "AS", "IA", s.random(16, abcUpper+"234567")),
		sampleOf("an AWS access key id", "A3", "TX", s.random(16, abcUpper+"234567")),
		sampleOf("an AWS Bedrock key", "AB", "SK", s.random(128, std64)),
		sampleOf("a Slack token", "xo", "xb-", s.random(12, "123456789"), "-", s.random(13, "123456789"), "-", s.random(24, alnum)),
		sampleOf("a Slack token", "xo", "xp-", s.random(11, "123456789"), "-", s.random(12, "123456789"), "-", s.random(13, "123456789"), "-",
			s.random(32, hexes)),
		sampleOf("a Slack token", "xa", "pp-1-A", s.random(10, abcUpper+num), "-", s.random(13, "123456789"), "-", s.random(64, hexes)),
		sampleOf("a Slack token", "xo", "xe.xo", "xp-1-", s.random(165, abcUpper+num)),
		sampleOf("a Slack token", "xo", "xe-1-", s.random(146, abcUpper+num)),
		{"a Slack webhook", "POST https://", "hooks.slack" + ".com/services/T" + s.random(8, abcUpper+num) + "/B" + s.random(10, abcUpper+num) +
			"/" + s.random(24, alnum), ""},
		{"a Discord webhook", "https://", "discord" + ".com/api/webhooks/" + s.random(18, num) + "/" + s.random(68, url64), ""},
		sampleOf("a Discord bot token", user, ".G", s.random(5, alnum), ".", s.random(38, url64)),
		{"a Telegram bot token", "bot=" + s.random(9, "123456789"), ":A" + "A" + s.random(33, url64), ""},
		sampleOf("a Stripe key", "sk", "_live_", s.random(24, alnum)),
		sampleOf("a Stripe key", "rk", "_live_", s.random(99, alnum)),
		sampleOf("a webhook secret", "whs", "ec_", s.random(32, alnum)),
		sampleOf("a Google API key", "AI", "za", "Sy", s.random(33, url64)),
		sampleOf("a Google OAuth token", "ya", "29.", "a0A", s.random(160, url64)),
		sampleOf("a Google OAuth secret", "GOC", "SPX-", s.random(28, url64)),
		sampleOf("an OpenAI key", "sk-", "proj-", s.random(74, url64), "T3B", "lbkFJ", s.random(74, url64)),
		sampleOf("an OpenAI key", "sk-", "svcacct-", s.random(58, url64), "T3B", "lbkFJ", s.random(58, url64)),
		sampleOf("an OpenAI key", "sk", "-", s.random(20, alnum), "T3B", "lbkFJ", s.random(20, alnum)),
		sampleOf("an Anthropic key", "sk-", "ant-api03-", s.random(93, url64), "AA"),
		sampleOf("a Hugging Face token", "h", "f_", s.random(34, abcLower+abcUpper)),
		sampleOf("an E2B key", "e2", "b_", s.random(86, "0123456789abcdef")),
		sampleOf("a sandboxmcp token", "sm", "cp_", s.random(10, abcUpper+"234567"), "_", s.random(59, abcUpper+"234567")),
		sampleOf("an npm token", "np", "m_", s.random(36, alnum)),
		sampleOf("a PyPI token", "pypi-", "AgEI", "cHlwaS5vcmc", s.random(150, url64)),
		sampleOf("a RubyGems key", "rubyg", "ems_", s.random(48, hexes)),
		sampleOf("a Docker Hub token", "dckr", "_pat_", s.random(27, url64)),
		sampleOf("a SendGrid key", "S", "G.", s.random(22, url64), ".", s.random(43, url64)),
		sampleOf("a Twilio key", "S", "K", s.random(32, hexes)),
		{"a Twilio token", "TWILIO_AUTH_TOKEN=", s.random(32, hexes), ""},
		{"a Mailgun key", `"mailgunApiKey": "`, "ke" + "y-" + s.random(32, hexes), `"`},
		{"a Mailgun key", `MAILGUN_SIGNING_KEY='`, s.random(32, hexes) + "-" + s.random(8, hexes) + "-" + s.random(8, hexes), `'`},
		sampleOf("a DigitalOcean token", "do", "p_v1_", s.random(64, hexes)),
		sampleOf("a DigitalOcean token", "do", "r_v1_", s.random(64, hexes)),
		sampleOf("a Shopify token", "shp", "at_", s.random(32, hexes)),
		sampleOf("a Shopify token", "shp", "ss_", s.random(32, hexes)),
		sampleOf("a Square token", "EA", "AA", s.random(60, url64)),
		sampleOf("a Square token", "sq0", "atp-", s.random(22, url64)),
		sampleOf("a Linear key", "lin", "_api_", s.random(40, alnum)),
		{"a Linear secret", `linear_client_secret = "`, s.random(32, hexes), `"`},
		sampleOf("a Notion token", "nt", "n_", s.random(11, num), s.random(35, alnum)),
		sampleOf("a Notion token", "sec", "ret_", s.random(43, alnum)),
		sampleOf("a Databricks token", "da", "pi", s.random(32, hexes)),
		{"a Discord secret", "DISCORD_CLIENT_SECRET=", s.random(32, alnum), ""},
		sampleOf("a Vault token", "hv", "s.", s.random(95, url64)),
		sampleOf("a Vault token", "hv", "b.", s.random(150, url64)),
		sampleOf("a Vault token", "s", ".", s.random(12, alnum), s.random(1, num), s.random(11, alnum)),
		{"a Terraform token", "token = \"" + s.random(14, alnum), ".atl" + "asv1." + s.random(67, url64), `"`},
		{"an Azure storage key", "AccountName=x;", "Account" + "Key=" + s.random(86, std64) + "==", ";EndpointSuffix=y"},
		{"an Azure signature", "https://x.blob.core.windows.net/c?sv=2024-01-01", "&si" + "g=" + strings.NewReplacer("+", "%2B", "/", "%2F", "=",
			"%3D").Replace(base64.StdEncoding.EncodeToString([]byte(s.random(32, std64)))), "&se=1"},
		{"an Azure client secret", "secret: " + s.random(3, alnum), "8" + "Q~" + s.random(34, alnum), ""},
		{"an AWS secret access key", "aws_secret_access_key = ", s.random(40, std64), ""},
		{"an AWS secret access key", `"SecretAccessKey": "`, s.random(40, std64), `",`},
		{"an AWS secret access key", "<SecretAccessKey>", s.random(40, std64), "</SecretAccessKey>"},
		{"an AWS secret access key", `os.environ["AWS_SECRET_ACCESS_KEY"] = '`, s.random(40, std64), "'"},
		sampleOf("an age secret key", "AGE-SEC", "RET-KEY-1", s.random(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")),
		sampleOf("a JSON web token", jwt),
		{"a private key", "-----BEGIN RSA " + "PRIVATE KEY-----", "\n" + lines(key, "\n"), "-----END RSA " + "PRIVATE KEY-----\n"},
		{"a private key", `"-----BEGIN ` + `PRIVATE KEY-----`, `\n` + lines(key, `\n`), `-----END ` + `PRIVATE KEY-----\n"`},
		{"a private key", "-----BEGIN " + "PRIVATE KEY-----", "\r\nMC4CAQAwBQYDK2VwBCIEI" + s.random(43, alnum) + "\r\n",
			"-----END " + "PRIVATE KEY-----\r\n"},
		{"a private key", "    -----BEGIN " + "PRIVATE KEY-----", "\n        " + strings.ReplaceAll(lines(key, "\n"), "\n", "\n        "),
			"-----END " + "PRIVATE KEY-----\n"},
		{"a private key", "-----BEGIN " + "PRIVATE KEY-----", " " + lines(key, " "), "-----END " + "PRIVATE KEY----- "},
		{"a private key", "'-----BEGIN " + "PRIVATE KEY-----", `\n' +` + "\n  '" + lines(key, `\n' +`+"\n  '"),
			"-----END " + "PRIVATE KEY-----'"},
		{"a private key", "-----BEGIN EC " + "PRIVATE KEY-----", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC," + s.random(32, hexes) +
			"\n\n" + lines(key[:164], "\n"), "-----END EC " + "PRIVATE KEY-----"},
		{"a private key", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----", "\nVersion: GnuPG v2\n\n" + lines(key, "\n") + "=a1B2\n",
			"-----END PGP " + "PRIVATE KEY BLOCK-----"},
		{"a URL with a password", "postgres://app:", s.random(16, alnum), "@db.internal:5432/x"},
		{"a URL with a password", "redis://:", s.random(12, alnum+"!$"), "@cache:6379/0"},
	}
	for _, p := range []string{"p", "o", "u", "s", "r"} {
		all = append(all, sampleOf("a GitHub token", "gh", p, "_", s.random(36, alnum)))
	}
	for _, p := range []string{"glpat-", "gldt-", "glrt-", "glptt-"} {
		n := map[string]int{"glptt-": 40}[p]
		all = append(all, sampleOf("a GitLab token", p[:2], p[2:], s.random(max(n, 20), hexes)))
	}
	return append(all, sampleOf("a GitLab token", "gl", "pat-", s.random(27, url64), ".0", s.random(1, hexes), ".", s.random(9, num+abcLower)))
}

// TestFormats: each format is found and completely redacted, and nothing else is.
func TestFormats(t *testing.T) {
	for seed := range uint64(20) {
		for _, tt := range samples(newSource(seed)) {
			places := [][2]string{{"", ""}, {"token: ", "\nmore text\n"}, {`{"t":"`, `"}`}, {`"line\n`, `\n"`}, {"\x1b[32m", "\x1b[0m"},
				{"?a=%22", "%22&b"}}
			if strings.HasPrefix(tt.text, "s.") { // two characters are too few after an escape
				places = places[:3]
			}
			for _, in := range places {
				text := in[0] + tt.before + tt.text + tt.after + in[1]
				want := in[0] + tt.before + Mark + tt.after + in[1]
				if got := masked(text); got != want {
					t.Fatalf("%s\n text %q\n  got %q\n want %q", tt.kind, text, got, want)
				}
				if got := kindsIn(text); !slices.Equal(got, []string{tt.kind}) {
					t.Fatalf("%q: got %q, want %q", text, got, tt.kind)
				}
			}
		}
	}
}

func write(t *testing.T, text string, mask bool, size func() int) (string, []string) {
	t.Helper()
	var out bytes.Buffer
	var kinds []string
	w := NewWriter(&out, mask, func(kind string) { kinds = append(kinds, kind) })
	for p := []byte(text); len(p) > 0; {
		n := min(max(size(), 1), len(p))
		if _, err := w.Write(p[:n]); err != nil {
			t.Fatal(err)
		}
		p = p[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), kinds
}

// TestPieces: the text may arrive in any pieces.
func TestPieces(t *testing.T) {
	s := newSource(3)
	for _, tt := range samples(s) {
		text := "say " + tt.before + tt.text + tt.after + " end"
		want := "say " + tt.before + Mark + tt.after + " end"
		for n := range 70 {
			if got, _ := write(t, text, true, func() int { return n }); got != want {
				t.Fatalf("%q in pieces of %d\n got %q\nwant %q", text, n, got, want)
			}
		}
		if got, kinds := write(t, text, false, func() int { return 3 }); got != text || !slices.Equal(kinds, []string{tt.kind}) {
			t.Errorf("%q without mask: got %q and %q", text, got, kinds)
		}
	}
}

// kindsIn returns the kinds of tokens in text, each once, in order of appearance.
func kindsIn(text string) []string {
	var kinds []string
	w := NewWriter(io.Discard, false, func(kind string) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	})
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return kinds
}

// masked returns text with each token replaced by Mark.
func masked(text string) string {
	var b bytes.Buffer
	w := NewWriter(&b, true, func(string) {})
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}
