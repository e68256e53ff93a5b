package vault

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math/rand/v2"
	"mime/quotedprintable"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// sampleTokens returns values in common formats of secrets.
func sampleTokens() map[string]string {
	r := rand.New(rand.NewPCG(5, 6))
	random := func(n int, alphabet string) string {
		v := make([]byte, n)
		for i := range v {
			v[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(v)
	}
	const up, low, digit = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
	word := up + low + digit
	jwt := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return map[string]string{
		"github":   "gh" + "p_" + random(36, word),
		"pat":      "github" + "_pat_" + random(22, word) + "_" + random(59, word),
		"aws id":   "AK" + "IA" + random(16, up+"234567"),
		"aws key":  random(40, word+"/+"),
		"slack":    "xo" + "xb-" + random(12, digit) + "-" + random(12, digit) + "-" + random(24, word),
		"stripe":   "sk" + "_live_" + random(24, word),
		"openai":   "sk" + "-proj-" + random(48, word+"-_"),
		"jwt":      jwt(`{"alg":"HS256","typ":"JWT"}`) + "." + jwt(`{"sub":"`+random(10, digit)+`"}`) + "." + random(43, word+"-_"),
		"password": "p@ss/W0rd&\"<" + random(6, "!$%'\\*+:;=?>") + "x1",
		"unicode":  "pässwörd-" + random(8, word) + "-ключ",
		"emoji":    "k\U0001F511y" + random(12, word) + "é",
		"url":      "postgres" + "://app:" + random(14, word+"!$") + "@db.internal:5432/main",
		"hex":      random(40, "0123456789abcdef"),
		"short":    random(10, word),
		"control":  random(8, word) + "\x01-\x1b" + random(8, word),
		"lines":    "user: app\n  key: " + random(10, word),
		"pem line": random(64, word+"+/"),
	}
}

// encoders returns encoders that don't use this package's code.
func encoders() map[string]func(string) string {
	bytesAs := func(format, sep string) func(string) string {
		return func(v string) string {
			var all []string
			for i := range len(v) {
				all = append(all, fmt.Sprintf(format, v[i]))
			}
			return strings.Join(all, sep)
		}
	}
	chars := func(format, sep string) func(string) string {
		return func(v string) string {
			var all []string
			for _, r := range v {
				all = append(all, fmt.Sprintf(format, r))
			}
			return strings.Join(all, sep)
		}
	}
	std := base64.StdEncoding.EncodeToString
	b64 := func(v string) string { return std([]byte(v)) }
	hx := func(v string) string { return hex.EncodeToString([]byte(v)) }
	reverse := func(v string) string { r := []rune(v); slices.Reverse(r); return string(r) }
	rot := func(v string) string {
		return strings.Map(func(r rune) rune {
			switch {
			case 'a' <= r && r <= 'z':
				return 'a' + (r-'a'+13)%26
			case 'A' <= r && r <= 'Z':
				return 'A' + (r-'A'+13)%26
			}
			return r
		}, v)
	}
	wide := func(v string, order binary.AppendByteOrder) string {
		var b []byte
		for _, u := range utf16.Encode([]rune(v)) {
			b = order.AppendUint16(b, u)
		}
		return string(b)
	}
	asJSON := func(v string) string {
		b, _ := json.Marshal(v)
		return string(b)
	}
	ints := func(v string) []int {
		n := []int{}
		for i := range len(v) {
			n = append(n, int(v[i]))
		}
		return n
	}
	all := map[string]func(string) string{
		"raw":               func(v string) string { return v },
		"json":              asJSON,
		"json in json":      func(v string) string { return asJSON(asJSON(v)) },
		"json thrice":       func(v string) string { return asJSON(asJSON(asJSON(v))) },
		"quoted ascii":      strconv.QuoteToASCII,
		"quoted twice":      func(v string) string { return strconv.QuoteToASCII(strconv.QuoteToASCII(v)) },
		"html":              html.EscapeString,
		"html twice":        func(v string) string { return html.EscapeString(html.EscapeString(v)) },
		"entities":          chars("&#%d;", ""),
		"padded entities":   chars("&#%05d;", ""),
		"hex entities":      chars("&#x%x;", ""),
		"HEX entities":      chars("&#X%04X;", ""),
		"octal escapes":     bytesAs(`\%03o`, ""),
		"octal escapes 4":   bytesAs(`\0%03o`, ""),
		"braces":            chars(`\u{%x}`, ""),
		"long escapes":      chars(`\U%08x`, ""),
		"hex escapes":       bytesAs(`\x%02x`, ""),
		"quoted-printable":  func(v string) string { return bytesAs("=%02X", "")(v) },
		"quoted soft":       quotedSoft,
		"query":             url.QueryEscape,
		"percent":           bytesAs("%%%02X", ""),
		"double percent":    bytesAs("%%25%02x", ""),
		"query twice":       func(v string) string { return url.QueryEscape(url.QueryEscape(v)) },
		"wrapped":           func(v string) string { return fold(strings.Repeat("x", 70)+v, 76, "\n") },
		"wrapped short":     func(v string) string { return fold(v, 7, "\r\n") },
		"indented":          func(v string) string { return fold(v, 9, "\n    ") },
		"zero width":        chars("%c", "\u200b"),
		"upper":             strings.ToUpper,
		"lower":             strings.ToLower,
		"swapcase":          swapcase,
		"blanks":            chars("%c", " "),
		"dashes":            chars("%c", "-"),
		"commas":            chars("%c", ","),
		"dots":              chars("%c", "."),
		"one a line":        chars("%c", "\n"),
		"list of chars":     func(v string) string { return "['" + chars("%c", "', '")(v) + "']" },
		"json of chars":     func(v string) string { b, _ := json.Marshal(strings.Split(v, "")); return string(b) },
		"hex":               hx,
		"HEX":               func(v string) string { return strings.ToUpper(hx(v)) },
		"hex blanks":        bytesAs("%02x", " "),
		"hex colons":        bytesAs("%02X", ":"),
		"hex commas":        bytesAs("%02x", ","),
		"hex dashes":        bytesAs("%02X", "-"),
		"hex underscores":   bytesAs("%02x", "_"),
		"hex 0x":            bytesAs("0x%02x", ", "),
		"hex 0X lines":      func(v string) string { return fold(bytesAs("0x%02X", ", ")(v), 36, "\n   ") },
		"hex folded":        func(v string) string { return fold(hx(v), 60, "\n") },
		"decimal list":      func(v string) string { return fmt.Sprint(ints(v)) },
		"decimal json":      func(v string) string { b, _ := json.Marshal(map[string]any{"data": ints(v)}); return string(b) },
		"decimal indented":  func(v string) string { b, _ := json.MarshalIndent(ints(v), "    ", "  "); return string(b) },
		"octal list":        bytesAs("%03o", " "),
		"octal python":      bytesAs("0o%o", ", "),
		"binary":            bytesAs("%08b", ""),
		"binary blanks":     bytesAs("%08b", " "),
		"binary python":     bytesAs("0b%b", ", "),
		"base32":            func(v string) string { return base32.StdEncoding.EncodeToString([]byte(v)) },
		"base32 lower":      func(v string) string { return strings.ToLower(base32.StdEncoding.EncodeToString([]byte(v))) },
		"base64":            b64,
		"base64url":         func(v string) string { return base64.RawURLEncoding.EncodeToString([]byte(v)) },
		"mime":              func(v string) string { return fold(b64("KEY="+v+"\n"), 76, "\r\n") },
		"utf-16":            func(v string) string { return wide(v, binary.LittleEndian) },
		"utf-16be":          func(v string) string { return wide(v, binary.BigEndian) },
		"reversed":          reverse,
		"rot13":             rot,
		"base64 twice":      func(v string) string { return b64(b64(v)) },
		"base64 of hex":     func(v string) string { return b64(hx(v)) },
		"hex of base64":     func(v string) string { return hx(b64(v)) },
		"hex of hex":        func(v string) string { return hx(hx(v)) },
		"base64 of reverse": func(v string) string { return b64(reverse(v)) },
		"powershell":        func(v string) string { return b64(wide(v, binary.LittleEndian)) },
		"hex of utf-16":     func(v string) string { return hx(wide(v, binary.LittleEndian)) },
	}
	for offset := range 5 {
		pad := "?????"[:offset]
		all[fmt.Sprint("base64 at ", offset)] = func(v string) string { return b64(pad + v + "#") }
		all[fmt.Sprint("base32 at ", offset)] = func(v string) string { return base32.StdEncoding.EncodeToString([]byte(pad + v + "#")) }
		all[fmt.Sprint("base64 twice at ", offset)] = func(v string) string { return b64("???"[:3-min(3, offset)] + b64(pad+v+"#")) }
	}
	return all
}

func quotedSoft(v string) string {
	var b bytes.Buffer
	w := quotedprintable.NewWriter(&b)
	w.Write([]byte(strings.Repeat("x", 60) + v))
	w.Close()
	return b.String()
}

func swapcase(v string) string {
	b := []byte(v)
	for i, c := range b {
		if low := c | 0x20; 'a' <= low && low <= 'z' {
			b[i] = c ^ 0x20
		}
	}
	return string(b)
}

// stripMarks returns text without marks and white space.
func stripMarks(got string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(got, Mark, "")), "")
}

// partlyFound are encodings that are found only for sufficiently long values.
var partlyFound = []string{"upper", "lower", "swapcase", "blanks", "dashes", "commas", "dots", "list of chars", "json of chars"}

// isFound reports whether README.md promises that a value is found in an encoding.
func isFound(name, v string) bool {
	return !slices.Contains(partlyFound, name) || len(v) >= minLoose && isASCII(v) && strings.ContainsAny(v, "0123456789")
}

// TestForms checks each encoding that README.md promises: nothing of the value is left in its text, wherever that
// is cut.
func TestForms(t *testing.T) {
	for token, v := range sampleTokens() {
		t.Run(token, func(t *testing.T) {
			t.Parallel()
			l := lease(t, v)
			for name, encode := range encoders() {
				if !isFound(name, v) {
					continue
				}
				text := " <" + encode(v) + "> "
				around := len(" <"+encode("")+"> ") + 8 // and the characters that also encode neighbouring text
				fails := func(got string, most int) bool {
					return !strings.Contains(got, Mark) || len(stripMarks(got)) > most || showsPart(got, v)
				}
				if got := l.Redact(text); fails(got, around) {
					t.Errorf("%s: %.200q leaves %.200q", name, text, got)
					continue
				}
				for n := 1; n < len(text); n += hosttest.Rounds(1+len(text)/150, 1) {
					if got := write(t, l, []byte(text[:n]), []byte(text[n:])); fails(got, around+len("0b1110000, ")) {
						t.Fatalf("%s cut after %d: %q leaves %q", name, n, text, got)
					}
				}
				for _, n := range []int{1, 2, 3, 7} {
					if got := stream(t, l, text, n); fails(got, around+len("0b1110000, ")) {
						t.Fatalf("%s in pieces of %d: %q leaves %q", name, n, text, got)
					}
				}
			}
		})
	}
}

// TestTools uses encodings by Unix tools.
func TestTools(t *testing.T) {
	for name, argv := range map[string][]string{
		"xxd -p": {"xxd", "-p"}, "xxd -i": {"xxd", "-i"}, "od -b": {"od", "-An", "-b"}, "od -tx1": {"od", "-An", "-tx1"},
		"od -tu1": {"od", "-An", "-tu1"},
		"base64":  {"base64"}, "base32": {"base32", "-w", "20"}, "rev": {"rev"}, "fold": {"fold", "-w", "11"}, "openssl": {"openssl", "base64"},
		"repr":   {"python3", "-c", "import sys;print(repr(sys.stdin.buffer.read()))"},
		"ascii":  {"python3", "-c", "import sys;print(ascii(sys.stdin.buffer.read().decode()))"},
		"list":   {"python3", "-c", "import sys;print(list(sys.stdin.buffer.read()))"},
		"buffer": {"node", "-e", "console.log(JSON.stringify(require('fs').readFileSync(0)))"},
		"array":  {"node", "-e", "console.log(new Uint8Array(require('fs').readFileSync(0)))"},
		"escape": {"node", "-e", "console.log(escape(require('fs').readFileSync(0,'utf8')))"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosttest.Program(t, argv[0])
			all := sampleTokens()
			for n, token := range slices.Sorted(maps.Keys(all)) {
				if (n+len(name))%hosttest.Rounds(3, 1) > 0 { // the other encodings are combined with each
					continue
				}
				v := all[token]
				for _, end := range []string{"", "\n"}[n%2 : n%2+1] {
					cmd := exec.Command(argv[0], argv[1:]...)
					cmd.Stdin = strings.NewReader(v + end)
					out, err := cmd.Output()
					if err != nil {
						t.Skip(err)
					}
					l := lease(t, v)
					for _, size := range []int{1, 7, 4096} {
						got := stream(t, l, string(out), size)
						if name == "array" && len(v) > 100 {
							continue // node omits the rest
						}
						if !strings.Contains(got, Mark) || len(stripMarks(got)) > 110 || showsPart(got, v) {
							t.Errorf("%s in pieces of %d: %s\nleaves %s", token, size, out, got)
							break
						}
					}
				}
			}
		})
	}
}

// showsPart reports whether text contains six consecutive bytes of v.
func showsPart(text, v string) bool {
	for i := range len(v) - 5 {
		if strings.Contains(text, v[i:i+6]) {
			return true
		}
	}
	return false
}

func isASCII(v string) bool { return strings.IndexFunc(v, func(r rune) bool { return r > 127 }) < 0 }

// ordinary returns typical program output without secrets.
func ordinary(t *testing.T) map[string]string {
	r := rand.New(rand.NewPCG(7, 8))
	all := map[string]string{}
	var numbers, table, page, minified strings.Builder
	for i := range hosttest.Rounds(5_000, 20_000) {
		fmt.Fprintf(&numbers, "%d, ", r.IntN(256))
		fmt.Fprintf(&table, "%8.3f %5d 0x%02x %03o %08b\n", r.Float64()*100, r.IntN(1000), r.IntN(256), r.IntN(256), r.IntN(256))
		fmt.Fprintf(&page, "<td class=\"c%d\">a &amp; b &#%d; &#x%x; %%%02X</td>\n", i%7, 32+r.IntN(95), r.IntN(1000), r.IntN(256))
		fmt.Fprintf(&minified, "function %c(%c,%c){return %c[%d]||\"\\u%04x\\x%02x\"}", 'a'+i%26, 'a'+i%25, 'a'+i%24, 'a'+i%23, i, r.IntN(0x2000),
			r.IntN(256))
	}
	noise := make([]byte, 60_000)
	for i := range noise {
		noise[i] = byte(32 + r.IntN(95))
	}
	all["numbers"], all["table"], all["page"], all["minified"] = numbers.String(), table.String(), page.String(), minified.String()
	all["dump"] = hex.Dump(noise)
	all["noise"] = string(noise)
	all["base32"] = base32.StdEncoding.EncodeToString(noise)
	all["base64 twice"] = base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(noise)))
	all["letters"] = strings.Join(strings.Split(string(noise), ""), " ")
	sources, _ := filepath.Glob("*.go")
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all["source"] += string(text)
	}
	quoted, _ := json.Marshal(all["source"])
	all["json of source"] = string(quoted)
	return all
}

func TestOrdinaryText(t *testing.T) {
	values := randomSecrets()
	for _, v := range sampleTokens() {
		values = append(values, v)
	}
	l := lease(t, values...)
	for name, text := range ordinary(t) {
		if got := l.Redact(text); got != text {
			i := strings.Index(got, Mark)
			t.Errorf("%s was changed near %q", name, got[max(0, i-40):min(len(got), i+60)])
		}
	}
}
