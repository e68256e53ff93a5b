package vault

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// lease returns a lease of these values, under the names S0, S1 and so on.
func lease(t testing.TB, values ...string) *Lease {
	t.Helper()
	m := NewMemory()
	var keys []string
	for i, v := range values {
		keys = append(keys, fmt.Sprintf("S%d", i))
		if err := m.Set("test", keys[i], []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := New(m).Lease(context.Background(), "test", keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// stream passes text through a Redactor in pieces of n bytes.
func stream(t testing.TB, l *Lease, text string, n int) string {
	t.Helper()
	return write(t, l, slices.Collect(slices.Chunk([]byte(text), n))...)
}

func write(t testing.TB, l *Lease, pieces ...[]byte) string {
	t.Helper()
	var out bytes.Buffer
	w := l.Writer(&out)
	for _, p := range pieces {
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// check redacts text with every function, in all sizes of pieces.
func check(t *testing.T, l *Lease, text, want string) {
	t.Helper()
	if got := l.Redact(text); got != want {
		t.Errorf("Redact(%q)\n got %q\nwant %q", text, got, want)
	}
	for n := 1; n <= len(text)+1; n++ {
		if got := stream(t, l, text, n); got != want {
			t.Fatalf("%q in pieces of %d\n got %q\nwant %q", text, n, got, want)
		}
	}
	found, err := l.ContainsSecret(strings.NewReader(text))
	if want := strings.Contains(want, Mark); err != nil || found != want {
		t.Errorf("Find(%q) = %v, %v, want %v", text, found, err, want)
	}
}

func fold(s string, width int, end string) string {
	var b strings.Builder
	for i := 0; i < len(s); i += width {
		b.WriteString(s[i:min(i+width, len(s))] + end)
	}
	return strings.TrimSuffix(b.String(), end)
}

func TestEncodings(t *testing.T) {
	const value = "pa/ss wörd\"\\&+\n<\U0001F511>%7é"
	l := lease(t, value)
	quoted, _ := json.Marshal(value)
	inner := string(quoted[1 : len(quoted)-1])
	std, raw := base64.StdEncoding, base64.RawURLEncoding
	for name, text := range map[string]string{
		"raw":              value,
		"go json":          inner,
		"python json":      `pa/ss w\u00f6rd\"\\&+\n<\ud83d\udd11>%7\u00e9`,
		"upper-case json":  `pa/ss w\u00F6rd\"\\&+\n<\uD83D\uDD11>%7\u00E9`,
		"escaped slash":    `pa\/ss wörd\"\\&+\n<` + "\U0001F511" + `>%7é`,
		"html-safe json":   `pa\u002fss wörd\u0022\u005C\u0026\u002B\u000a\u003c` + "\U0001F511" + `\u003E%7é`,
		"repr of bytes":    `pa/ss w\xc3\xb6rd"\\&+\n<\xf0\x9f\x94\x91>%7\xc3\xa9`,
		"query":            url.QueryEscape(value),
		"path":             url.PathEscape(value),
		"lower-case query": strings.ToLower(url.QueryEscape(value)),
		"all percent":      percent(value, "%%%02X"),
		"any mix":          "%70a%2Fss+w%c3%B6r\\u0064\\\"\\\\%26+%0a<\U0001F511\\u003e%257é",
		"hex":              hex.EncodeToString([]byte(value)),
		"HEX":              strings.ToUpper(hex.EncodeToString([]byte(value))),
		"hex dump":         fold(hex.EncodeToString([]byte(value)), 10, "\n"),
		"base64":           std.EncodeToString([]byte(value)),
		"base64url":        raw.EncodeToString([]byte(value)),
		"mime":             fold(std.EncodeToString([]byte(value)), 7, "\r\n"),
		"one a line":       fold(std.EncodeToString([]byte(value)), 1, "\n"),
		"repr of lines":    fold(std.EncodeToString([]byte(value)), 19, `\n`),
		"repr of crlf":     fold(std.EncodeToString([]byte(value)), 3, `\r\n`),
		"base64 in a url":  url.QueryEscape(std.EncodeToString([]byte(value))),
		"base64 in json":   strings.ReplaceAll(std.EncodeToString([]byte(value)), "/", `\/`),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "mime" || name == "one a line" { // at the end of a line, its first letter is not held back
				checkLeft(t, l, text, 1)
				return
			}
			check(t, l, text, Mark)
			check(t, l, "a = ["+text+"], b", "a = ["+Mark+"], b")
			check(t, l, text+text+" "+text, Mark+Mark+" "+Mark)
		})
	}
}

// checkLeft checks that at most maxLeft letters are left of a text, however it is cut.
func checkLeft(t *testing.T, l *Lease, text string, maxLeft int) {
	t.Helper()
	for n := 1; n <= len(text); n++ {
		got := stream(t, l, text, n)
		if len(stripMarks(got)) > maxLeft || !strings.Contains(got, Mark) {
			t.Errorf("%q in pieces of %d leaves %q", text, n, got)
		}
	}
}

// TestEscapedBase64 has the characters of base64 that URLs and JSON escape, also right after a line break.
func TestEscapedBase64(t *testing.T) {
	l := lease(t, "???>>>~~~abc!")
	encoded := base64.StdEncoding.EncodeToString([]byte("???>>>~~~abc!"))
	if !strings.Contains(encoded, "/") || !strings.Contains(encoded, "+") || !strings.HasSuffix(encoded, "=") {
		t.Fatalf("%s does not test it", encoded)
	}
	folded := fold(encoded, 1, "\n")
	for _, escapes := range [][]string{
		{"/", "%2f", "+", "%2B", "=", "%3D"}, {"/", `\/`, "+", `\u002b`, "=", `\u003D`}, {"/", "_", "+", "-"},
	} {
		r := strings.NewReplacer(escapes...)
		check(t, l, "<"+r.Replace(encoded)+">", "<"+Mark+">")
		checkLeft(t, l, "<"+r.Replace(folded)+">", 1+len("<>"))
	}
}

// TestValueWithEscapeSyntax has values that look like escapes.
func TestValueWithEscapeSyntax(t *testing.T) {
	for _, v := range []string{`\u0000`, `\u00e9`, `%41%42`, `\x41\x42`, `\n\r\t`, `"\\"\"x`, `+%20+ -`} {
		l := lease(t, v)
		check(t, l, "<"+v+">", "<"+Mark+">")
		for _, text := range []string{url.QueryEscape(v), url.PathEscape(v), html.EscapeString(v), strings.Trim(encoders()["json"](v), `"`),
			encoders()["hex"](v), encoders()["base64"](v)} {
			check(t, l, "<"+text+">", "<"+Mark+">")
		}
	}
}

// TestNotUTF8 has bytes that are not UTF-8, as Python writes them.
func TestNotUTF8(t *testing.T) {
	l := lease(t, "key\xff\xfe\x80end")
	check(t, l, "<key\xff\xfe\x80end>", "<"+Mark+">")
	check(t, l, `<key\udcff\udcfe\uDC80end>`, "<"+Mark+">")
	check(t, l, `<key\xff\xfe\x80end>`, "<"+Mark+">")
	check(t, l, `<key%FF%fe%80end>`, "<"+Mark+">")
}

// TestJSONStaysJSON: redacting part of a JSON string also removes the backslashes of its first character.
func TestJSONStaysJSON(t *testing.T) {
	for _, v := range []string{`"quoted"-secret-9`, `\x41-secret-9-tail`, "line\nsecret-9-tail"} {
		l := lease(t, v)
		for name, encode := range encoders() {
			inner, _ := json.Marshal(encode(v))
			text := `["a", ` + string(inner) + `, {"b": ` + string(inner) + `}]`
			for _, n := range []int{1, 3, len(text)} {
				if got := stream(t, l, text, n); !json.Valid([]byte(got)) {
					t.Errorf("%s: %s leaves %s", name, text, got)
				}
			}
		}
	}
}

// TestReversedEscapes: reversed, the backslash of a line end precedes an unrelated letter.
func TestReversedEscapes(t *testing.T) {
	for _, letter := range "nrtbfvaeux07q" {
		v := `{"key": "first-line-` + string(letter) + `\nsecond-line-` + string(letter) + `\nthird"}`
		l := lease(t, v)
		checkLeft(t, l, "<"+encoders()["reversed"](v)+">", len(`{"">}`)+1)
	}
}

func percent(s, format string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}
