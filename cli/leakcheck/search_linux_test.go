package leakcheck

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	stdbase32 "encoding/base32"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// width is the number of consecutive random bytes of a secret that count as a leak.
const width = 10

// search finds any part of any secret in text and in everything that text decodes to.
type search struct {
	parts map[string]string // each part of width bytes -> the secret's name
	maybe []uint64          // a bit for the hash of each part
}

func newSearch(all map[string]secret) *search {
	s := &search{map[string]string{}, make([]uint64, 1<<16)}
	for name, secret := range all {
		for _, core := range secret.core {
			for i := 0; i+width <= len(core); i++ {
				part := core[i : i+width]
				s.parts[part] = name
				h := mix(part)
				s.maybe[h>>6&0xffff] |= 1 << (h & 63)
			}
		}
	}
	return s
}

func mix(part string) uint64 {
	h := uint64(14695981039346656037)
	for i := range width {
		h = (h ^ uint64(part[i])) * 1099511628211
	}
	return h ^ h>>29
}

// verbatim adds the secrets of which a part is in text, undecoded, to found.
func (s *search) verbatim(text string, found map[string]string, how string) {
	for i := 0; i+width <= len(text); i++ {
		part := text[i : i+width]
		h := mix(part)
		if s.maybe[h>>6&0xffff]&(1<<(h&63)) == 0 {
			continue
		}
		if name, is := s.parts[part]; is && found[name] == "" {
			found[name] = how + ": ..." + strconv.QuoteToASCII(text[max(0, i-30):i]) + " HERE"
		}
	}
}

// secretsIn returns the names of the secrets in text, and how each was found.
func (s *search) secretsIn(text string) map[string]string {
	found := map[string]string{}
	s.verbatim(text, found, "raw")
	for _, d := range decoders() {
		once := d.decode(text)
		if once == text || once == "" {
			continue
		}
		s.verbatim(once, found, d.name)
		for _, e := range decoders() {
			if !d.again || !e.again {
				continue
			}
			if twice := e.decode(once); twice != once && twice != "" {
				s.verbatim(twice, found, d.name+", "+e.name)
			}
		}
	}
	return found
}

// decoder decodes a whole text. Decoders are chained where one can follow another.
type decoder struct {
	name   string
	decode func(string) string
	again  bool
}

func decoders() []decoder {
	return []decoder{
		{"backslashes", unescape, true},
		{"percent", percent, true},
		{"HTML", html.UnescapeString, true},
		{"quoted-printable", printable, true},
		{"base64", func(t string) string { return decodeRuns(t, alnum+"+/_-", 13, 4, fromBase64) }, true},
		{"base64, folded", func(t string) string { return decodeRuns(removeSpaces(t), alnum+"+/_-", 13, 4, fromBase64) }, false},
		{"base32", func(t string) string { return decodeRuns(removeSpaces(t), base32+upper, 16, 8, fromBase32) }, false},
		{"hex", func(t string) string { return decodeRuns(joinHex(t), hexes+"ABCDEF", 20, 2, fromHex) }, true},
		{"decimal", func(t string) string { return numbers(t, decimalRun(), 10) }, false},
		{"binary", func(t string) string { return numbers(t, binaryRun(), 2) }, false},
		{"octal", func(t string) string { return numbers(t, octalRun(), 8) }, false},
		{"UTF-16", func(t string) string { return strings.ReplaceAll(t, "\x00", "") }, true},
		{"UTF-16 units", decodeUTF16, false},
		{"white space", removeSpaces, false},
		{"reversed", reversed, false},
		{"rot13", rot13, false},
	}
}

var (
	decimalRun = lazyRegexp(`(?:\d{1,3}\D{1,4}){10,}`)
	binaryRun  = lazyRegexp(`(?:[01]{8}[^01]{0,3}){10,}`)
	octalRun   = lazyRegexp(`(?:[0-3]?[0-7]{2}\D{1,3}){10,}`)
	backslash  = lazyRegexp(`\\(?:u\{?[0-9a-fA-F]{4,6}\}?|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|.)`)
	triplet    = lazyRegexp(`%[0-9a-fA-F]{2}`)
	equals     = lazyRegexp(`=(?:[0-9A-Fa-f]{2}|\r?\n)`)
	number     = lazyRegexp(`\d+`)
	between    = lazyRegexp(`(?i)([0-9a-f]{2})(?:0x|\\x|[ ,:;\n\r\t-]{1,4}|, ?0x)(?:0x)?`)
)

// lazyRegexp compiles a pattern on first use.
func lazyRegexp(pattern string) func() *regexp.Regexp {
	var re *regexp.Regexp
	return func() *regexp.Regexp {
		if re == nil {
			re = regexp.MustCompile(pattern)
		}
		return re
	}
}

func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	return backslash().ReplaceAllStringFunc(text, func(e string) string {
		if len(e) >= 4 && strings.ContainsAny(e[1:2], "ux0123") {
			base := 16
			if e[1] != 'u' && e[1] != 'x' {
				e, base = " "+e, 8
			}
			n, _ := strconv.ParseInt(strings.Trim(e[2:], "{}"), base, 32)
			if e[1] == 'u' {
				return string(rune(n))
			}
			return string([]byte{byte(n)})
		}
		if i := strings.IndexByte("nrt", e[1]); i >= 0 {
			return "\n\r\t"[i : i+1]
		}
		return e[1:]
	})
}

func percent(text string) string {
	return triplet().ReplaceAllStringFunc(text, func(e string) string { b, _ := hex.DecodeString(e[1:]); return string(b) })
}

func printable(text string) string {
	return equals().ReplaceAllStringFunc(text, func(e string) string { b, _ := hex.DecodeString(strings.TrimSpace(e[1:])); return string(b) })
}

// decodeRuns decodes each run of at least least characters of an alphabet, from each offset at which a group may begin.
func decodeRuns(text, alphabet string, least, offsets int, decode func(string) string) string {
	var is [256]bool
	for _, b := range []byte(alphabet) {
		is[b] = true
	}
	var out strings.Builder
	for from := 0; from < len(text); from++ {
		to := from
		for to < len(text) && is[text[to]] {
			to++
		}
		for i := 0; i < offsets && to-from >= least; i++ {
			out.WriteString(decode(text[from+i : to]))
			out.WriteByte('\n')
		}
		from = to
	}
	return out.String()
}

var fromURL = strings.NewReplacer("-", "+", "_", "/")

func fromBase64(run string) string {
	run = fromURL.Replace(run)
	b, _ := base64.RawStdEncoding.DecodeString(run[:len(run)/4*4])
	return string(b)
}

func fromBase32(run string) string {
	b, _ := stdbase32.StdEncoding.WithPadding(stdbase32.NoPadding).DecodeString(strings.ToUpper(run[:len(run)/8*8]))
	return string(b)
}

func fromHex(run string) string {
	b, _ := hex.DecodeString(run[:len(run)/2*2])
	return string(b)
}

// joinHex removes separators between bytes in hex.
func joinHex(text string) string { return between().ReplaceAllString(text, "$1") }

func numbers(text string, re *regexp.Regexp, base int) string {
	var out strings.Builder
	for _, run := range re.FindAllString(text+" ", -1) {
		for _, n := range number().FindAllString(run, -1) {
			if v, err := strconv.ParseUint(n, base, 8); err == nil {
				out.WriteByte(byte(v))
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// decodeUTF16 reads a text as UTF-16, in both byte orders and from both offsets.
func decodeUTF16(text string) string {
	if !strings.Contains(text, "\x00") {
		return text
	}
	var out strings.Builder
	for _, shift := range []int{0, 1} {
		for _, big := range []bool{false, true} {
			var units []uint16
			for i := shift; i+1 < len(text); i += 2 {
				a, b := uint16(text[i]), uint16(text[i+1])
				if big {
					a, b = b, a
				}
				units = append(units, a|b<<8)
			}
			out.WriteString(string(utf16.Decode(units)))
		}
	}
	return out.String()
}

func removeSpaces(text string) string { return strings.Join(strings.Fields(text), "") }

func reversed(text string) string {
	if !utf8.ValidString(text) {
		b := []byte(text)
		slices.Reverse(b)
		return string(b)
	}
	r := []rune(text)
	slices.Reverse(r)
	return string(r)
}

func rot13(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return 'a' + (c-'a'+13)%26
		case c >= 'A' && c <= 'Z':
			return 'A' + (c-'A'+13)%26
		}
		return c
	}, text)
}
