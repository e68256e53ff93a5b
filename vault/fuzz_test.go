package vault

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzReference compares with regular expressions, on text of randomly ordered pieces of the values and their
// encodings.
func FuzzReference(f *testing.F) {
	for seed := range uint64(30) {
		f.Add("correct-horse", `a"b\c%20 d`, seed)
		f.Add("abcabcabcab", "bcabcab+/=", seed)
		f.Add(`\\\\x\\\\y\\`, "%25%2525%41", seed)
		f.Add("0%30\\u0030", "\U0001F511é\xff\xfekey", seed)
		f.Add("first line of a key\nsecond line of a key\n", "second line", seed)
		f.Add("001020", "1007000A", seed) // differs from its rot13 only in its last bits
	}
	f.Fuzz(func(t *testing.T, one, two string, seed uint64) {
		values := []string{one, two}
		for _, v := range values {
			if len(v) > 60 || checkValue([]byte(v)) != nil || strings.ContainsAny(v, `\%`) ||
				!isPlain(v) {
				t.Skip("not a value that can be leased, too slow for the reference, with escapes of its own, which it takes for text, or " +
					"nothing beside =")
			}
		}
		r := rand.New(rand.NewPCG(seed, 0))
		text := disorder(r, values)
		l := lease(t, values...)
		covered := make([]bool, len(text))
		whole := scan{matcher: l.inner().matcher}
		if whole.matcher != nil {
			whole.feed([]byte(text), true)
		}
		for _, s := range whole.found {
			for i := s.from; i < s.to; i++ {
				covered[i] = true
			}
		}
		for _, s := range reference(values, text) {
			for i := s.from; i < s.to; i++ {
				if !covered[i] {
					t.Fatalf("values %q, text %q: %q is not found", values, text, text[s.from:s.to])
				}
			}
		}
		want := l.Redact(text)
		got, paused := inChunks(t, l, text, r)
		if got != want && !paused {
			t.Fatalf("values %q, %q in chunks\n got %q\nwant %q", values, text, got, want)
		}
	})
}

// isPlain reports whether a value is found in any mixture of escapes, and in base64: it has enough characters other
// than escapes.
func isPlain(v string) bool {
	v = strings.TrimSpace(v)
	whole, _ := viewSymbols([]byte(v))
	for offset := range 3 {
		form := encodedCore(base64.RawStdEncoding, 6, offset, []byte(v))
		if _, letters := viewSymbols(form); len(letters) < window || strings.ContainsAny(string(form[:1]), "+/") {
			return false // otherwise its first character stays
		}
	}
	return isDistinctive(whole) && !strings.HasPrefix(v, "+") && !strings.HasPrefix(v, "=") &&
		!strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' })
}

// FuzzSkip compares with a scan that reads every character: the findings, and the text held back at each pause.
func FuzzSkip(f *testing.F) {
	for seed := range uint64(20) {
		f.Add("correct-horse-battery", "p@$$w!", "0000002a: text", seed)
		f.Add("a=b=c=d%41%42", "secret=", "no\r\n\r\n  00000010  61 62  |ab|\n", seed)
		f.Add("$$$hunter2", "1.2.3.4", "\x00\x01\u200b&amp;\\\\u0041", seed)
		f.Add("ab\x00cdefgh", "......a......b", "\x1b[31m$ \xe2\x80\x9d=", seed)
		f.Add("Zq\x01x9!kdw-éà", "\\n\\t\\x41bc", strings.Repeat("-", 130)+"=\n\t", seed)
	}
	f.Fuzz(func(t *testing.T, one, two, between string, seed uint64) {
		for _, v := range []string{one, two} {
			if len(v) > 100 || checkValue([]byte(v)) != nil {
				t.Skip("not a value that can be leased")
			}
		}
		m := lease(t, one, two).inner().matcher
		if m == nil {
			t.Skip("nothing is redacted")
		}
		r := rand.New(rand.NewPCG(seed, 4))
		text := mostlySkipped(r, []string{one, two}, between)
		fast, exact := scan{matcher: m}, scan{matcher: m, readUntil: math.MaxInt64}
		for from := 0; from < len(text); {
			to := min(len(text), from+1+r.IntN([]int{5, 50, 500}[r.IntN(3)]))
			fast.feed([]byte(text[from:to]), to == len(text))
			exact.feed([]byte(text[from:to]), to == len(text))
			gotFirst, gotPaused := fast.firstPending()
			first, paused := exact.firstPending()
			if !slices.Equal(fast.found, exact.found) || gotFirst != first || gotPaused != paused {
				t.Fatalf("values %q %q, text %q up to %q:\n got %v, pending %d %v\nwant %v, pending %d %v",
					one, two, text[:from], text[from:to], fast.found, gotFirst, gotPaused, exact.found, first, paused)
			}
			from = to
		}
	})
}

// mostlySkipped returns text that is mostly skipped.
func mostlySkipped(r *rand.Rand, values []string, between string) string {
	all := encoders()
	names := slices.Sorted(maps.Keys(all))
	var b strings.Builder
	for range 12 {
		v := values[r.IntN(len(values))]
		switch r.IntN(8) {
		case 0:
			b.WriteString(all[names[r.IntN(len(names))]](v))
		case 1:
			b.WriteString(spell(r, v))
		case 2:
			s := all[names[r.IntN(len(names))]](v)
			b.WriteString(s[:r.IntN(len(s)+1)])
		case 3:
			b.WriteString(between)
		case 4:
			b.WriteString([]string{"% ", "\\ ", "\\u00", "\n", "\r\n", "=", "+", "%2", "\n\n  ", "&am", "\n000000", "\x1b[", `\\\`,
				"  |"}[r.IntN(14)])
		default:
			const words = "It was 12:05 (or so), in the year 2026-01-02; nobody said \"yes\" to <them> = $5 + 7 _ok_. "
			from := r.IntN(len(words))
			b.WriteString(words[from:] + words[:from])
		}
	}
	return b.String()
}

// disorder returns a text of pieces: complete and truncated encodings, escapes and single characters.
func disorder(r *rand.Rand, values []string) string {
	var b strings.Builder
	for b.Len() < 200 {
		s := spell(r, values[r.IntN(len(values))])
		switch r.IntN(6) {
		case 0, 1:
			b.WriteString(s)
		case 2:
			b.WriteString(s[:r.IntN(len(s)+1)] + " ") // text cut within an escape absorbs the following characters
		case 3:
			b.WriteString(s[r.IntN(len(s)+1):])
		case 4:
			b.WriteString([]string{"% ", "\\ ", "\\u00 ", "\\n", "\r\n", "=", "+", "%2 ", " ", "x"}[r.IntN(10)])
		}
	}
	return b.String()
}

// spell returns v in a random encoding.
func spell(r *rand.Rand, v string) string {
	switch r.IntN(7) {
	case 0:
		return v
	case 1:
		s, _ := json.Marshal(v)
		return string(s[1 : len(s)-1])
	case 2:
		return url.QueryEscape(v)
	case 3:
		return mixEscapes(r, v)
	case 4:
		s := hex.EncodeToString([]byte(v))
		if r.IntN(2) == 0 {
			s = strings.ToUpper(s)
		}
		return foldSome(r, s)
	default:
		data := make([]byte, r.IntN(4)+len(v)+r.IntN(4))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		copy(data[r.IntN(len(data)-len(v)+1):], v)
		enc := []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding}[r.IntN(4)]
		return foldSome(r, enc.EncodeToString(data))
	}
}

// mixEscapes escapes each byte in a random way, or not.
func mixEscapes(r *rand.Rand, v string) string {
	var b strings.Builder
	for i := range len(v) {
		format := []string{"%%%02x", "%%%02X", "\\u%04x", "\\u%04X", "\\x%02x"}[r.IntN(5)]
		switch {
		case r.IntN(2) == 0 || v[i] >= 0x80:
			b.WriteByte(v[i])
		default:
			b.WriteString(percent(v[i:i+1], format))
		}
	}
	return b.String()
}

func foldSome(r *rand.Rand, s string) string {
	if r.IntN(2) == 0 {
		return s
	}
	return fold(s, 1+r.IntN(12), []string{"\n", "\r\n", `\n`, `\r\n`}[r.IntN(4)])
}

// inChunks redacts text in chunks. paused reports whether the first of a list was released because a chunk ended
// there.
func inChunks(t testing.TB, l *Lease, text string, r *rand.Rand) (clean string, paused bool) {
	t.Helper()
	var out bytes.Buffer
	w := l.Writer(&out)
	for rest := text; rest != ""; {
		n := 1 + r.IntN(min(len(rest), 1+r.IntN(20)))
		if _, err := w.Write([]byte(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
		if _, p := w.text().scan.firstPending(); p {
			paused = true
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String(), paused
}

// spellBase64 encodes v at an offset.
func spellBase64(v string, offset int) string {
	return base64.StdEncoding.EncodeToString([]byte("???"[:offset] + v))
}

// FuzzComposed writes a token in one or two of the encodings that are found in combination, and splits it.
func FuzzComposed(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 2))
		all, known := encoders(), sampleTokens()
		name := slices.Sorted(maps.Keys(all))[r.IntN(len(all))]
		token := slices.Sorted(maps.Keys(known))[r.IntN(len(known))]
		v := known[token]
		if !isFound(name, v) {
			return
		}
		text := all[name](v)
		// Text that travels in JSON or a URL. Escapes within others are found in one manner only.
		if r.IntN(2) == 0 && !strings.ContainsAny(text, "\\%&=\x1b\x00 \r\n\t,:;'\"<>|\u200b") {
			text = []func(string) string{all["json"], all["query"], all["html"]}[r.IntN(3)](text)
		}
		if got, _ := inChunks(t, lease(t, v), "a "+text+" b", r); showsPart(got, v) || !strings.Contains(got, Mark) {
			t.Fatalf("%s as %s: %q leaves %q", token, name, text, got)
		}
	})
}

// FuzzRecover decodes the output in all encodings, and searches it for the value.
func FuzzRecover(f *testing.F) {
	for seed := range uint64(100) {
		f.Add("correct-horse-battery", "text before ", " and after", seed)
		f.Add("p\"a\\s/s+w d%", "%", "\\", seed)
	}
	f.Fuzz(func(t *testing.T, value, before, after string, seed uint64) {
		core := strings.TrimSpace(value)
		if !utf8.ValidString(value) || !isPlain(value) { // JSON changes it, or it is an escape
			t.Skip()
		}
		if checkValue([]byte(value)) != nil || len(redactableParts([]byte(value))) == 0 || strings.Contains(core, "*") {
			t.Skip("not leased, not redacted, or made of what the mark is made of")
		}
		if (len(core) < window+2 || strings.ContainsAny(core[:1], `\%`)) && strings.ContainsAny(before, `\%`) ||
			strings.ContainsAny(core[len(core)-5:], `\%`) {
			t.Skip("an escape beside it takes so much of it that the rest is not looked for")
		}
		r := rand.New(rand.NewPCG(seed, 1))
		l := lease(t, value)
		text := before + spell(r, value) + after
		got, _ := inChunks(t, l, text, r)
		for _, s := range decoded(got) {
			if strings.Contains(s, core) {
				t.Fatalf("value %q, text %q: the output %q shows it", value, text, got)
			}
		}
		if clean := before + after; !strings.Contains(text, core) && got == text {
			t.Fatalf("value %q, text %q (%q) passed unchanged", value, text, clean)
		}
	})
}

// decoded returns the decodings that an attacker would try.
func decoded(s string) []string {
	all := []string{s}
	if u, err := url.QueryUnescape(s); err == nil {
		all = append(all, u)
	}
	var text string
	if json.Unmarshal([]byte(`"`+s+`"`), &text) == nil {
		all = append(all, text)
	}
	flat := strings.NewReplacer("\r", "", "\n", "", `\r`, "", `\n`, "", "-", "+", "_", "/").Replace(s)
	for _, word := range strings.FieldsFunc(flat, func(r rune) bool { return !strings.ContainsRune(alphabet, r) }) {
		for skip := range min(4, len(word)) {
			b, _ := base64.RawStdEncoding.DecodeString(word[skip:])
			all = append(all, string(b))
		}
	}
	for _, word := range strings.FieldsFunc(flat, func(r rune) bool { return r > 127 || hexValue(char(r)) > 15 }) {
		for skip := range min(2, len(word)) {
			b, _ := hex.DecodeString(word[skip:])
			all = append(all, string(b))
		}
	}
	return all
}
