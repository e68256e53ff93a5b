package leakcheck

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// secret is a value in the format of a real service. core is its random part: the rest, such as a prefix, is public.
type secret struct {
	format, value string
	core          []string
}

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letter = lower + upper
	alnum  = letter + digits
	word   = alnum + "_-"
	hexes  = digits + "abcdef"
	base32 = lower + "234567"
	marks  = `!#$%&()*+,./:;<=>?@[]^_{|}~"'\` + "`"
)

// mint generates secrets.
type mint struct {
	*testing.T
	*rand.Rand
}

func newMint(t *testing.T) mint {
	return mint{t, rand.New(rand.NewPCG(1, 2))}
}

func (m mint) randomText(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[m.IntN(len(alphabet))]
	}
	return string(b)
}

// shapes are formats, in which a%20 stands for 20 characters of the alphabet a. They are written in pieces, so that
// scanners of source code do not match this file.
func shapes() map[string][]string {
	all := map[string]string{"d": digits, "l": lower, "u": upper, "a": alnum, "w": word, "h": hexes, "b": base32, "U": upper + digits,
		"m": alnum + marks, "s": alnum + "/+"}
	made := map[string][]string{}
	for name, text := range map[string]string{
		"aws key id": "AK|IA|U%16", "aws secret": "s%40", "aws session": "s%220|==", "github": "gh|p_|a%36", "github app": "gh|s_|a%36",
		"github fine": "github|_pat_|a%22|_|a%59", "gitlab": "gl|pat-|w%20", "slack bot": "xo|xb-|d%12|-|d%12|-|a%24",
		"slack hook": "https://hooks.|slack.com/services/T|U%10|/B|U%10|/|a%24",
		"stripe":     "sk|_live_|a%24", "stripe long": "rk|_live_|a%99", "twilio": "S|K|h%32", "sendgrid": "S|G.|w%22|.|w%43",
		"google": "AI|za|w%35", "google oauth": "GOC|SPX-|w%28",
		"npm": "np|m_|a%36", "pypi": "py|pi-AgEIcHlwaS5vcmc|w%150", "openai": "sk|-proj-|w%74|T3Blb|kFJ|w%74",
		"anthropic": "sk|-ant-|api03-|w%93|AA", "hugging face": "h|f_|l%34",
		"jwt": "ey|JhbGciOiJIUzI1NiJ9|.|w%60|.|w%43", "digitalocean": "do|p_v1_|h%64", "shopify": "shp|at_|h%32", "azure storage": "s%86|==",
		"azure client": "a%3|8Q~|w%34",
		"telegram":     "d%10|:AA|w%33", "mailgun": "ke|y-|h%32", "datadog": "h%40", "uuid": "h%8|-|h%4|-|h%4|-|h%4|-|h%12",
		"vault": "hv|s.|w%90", "age": "AGE-|SECRET-KEY-1|U%58",
		"postgres url": "postgres://app:|a%24|@db.internal:5432/app", "bearer": "w%64", "password": "m%24", "long password": "m%48",
		"accents": "påss-|a%12|-ß-密碼-|a%12", "discord": "M|w%25|.|w%6|.|w%38",
		"linear": "lin|_api_|a%40", "databricks": "dap|i|h%32", "grafana": "gl|sa_|a%32|_|h%8", "pulumi": "pu|l-|h%40", "base64 key": "s%43|=",
		"hex key": "h%64", "new relic": "NR|AK-|U%27",
	} {
		for _, part := range strings.Split(text, "|") {
			kind, count, is := strings.Cut(part, "%")
			if alphabet := all[kind]; is && alphabet != "" {
				part = "\x00" + alphabet + "\x00" + count
			}
			made[name] = append(made[name], part)
		}
	}
	return made
}

func (m mint) shaped(format string, parts []string) secret {
	s := secret{format: format}
	for _, p := range parts {
		if rest, is := strings.CutPrefix(p, "\x00"); is {
			alphabet, count, _ := strings.Cut(rest, "\x00")
			n := 0
			fmt.Sscan(count, &n)
			p = m.randomText(alphabet, n)
			if n >= 10 {
				s.core = append(s.core, p)
			}
		}
		s.value += p
	}
	if s.core == nil || format == "uuid" {
		s.core = []string{s.value}
	}
	return s
}

// privateKey returns a key of several lines, each of which must be redacted.
func (m mint) privateKey(i int) secret {
	var key any
	_, key, err := ed25519.GenerateKey(nil)
	if i%2 == 0 {
		key, err = ecdsa.GenerateKey(elliptic.P384(), nil)
	}
	if err != nil {
		m.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		m.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE " + "KEY", Bytes: der}))
	lines := strings.Split(strings.TrimSpace(text), "\n")
	body := strings.Join(lines[1:len(lines)-1], "\n")
	return secret{"private key", text, []string{body[min(24, len(body)/2):]}} // the text before it is the type of the key
}

// serviceAccount returns a JSON document with a key in it.
func (m mint) serviceAccount() secret {
	key := m.privateKey(0)
	text, err := json.Marshal(map[string]string{"type": "service_account", "project_id": "p-" + m.randomText(lower, 5),
		"private_key": key.value})
	if err != nil {
		m.Fatal(err)
	}
	escaped, _ := json.Marshal(key.core[0])
	return secret{"service account", string(text), []string{strings.Trim(string(escaped), `"`)}}
}

// secrets returns n secrets of all formats, by name.
func (m mint) secrets(n int) map[string]secret {
	all := map[string]secret{}
	add := func(s secret) { all[fmt.Sprintf("LEAK_%03d", len(all))] = s }
	formats := shapes()
	for len(all) < n {
		for _, format := range sortedKeys(formats) {
			add(m.shaped(format, formats[format]))
		}
		add(m.privateKey(len(all)))
		add(m.serviceAccount())
		basic := m.randomText(alnum, 30)
		add(secret{"basic", base64.StdEncoding.EncodeToString([]byte("user:" + basic)),
			[]string{base64.StdEncoding.EncodeToString([]byte("user:" + basic))[8:]}})
	}
	return all
}
