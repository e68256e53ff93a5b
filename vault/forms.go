package vault

import (
	"bytes"
	"encoding/ascii85"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

const (
	minApart   = 8   // bytes of a value that is found with something between its characters, or transformed
	minLoose   = 12  // letters and digits of a value that is found with something between some of them, in either case
	minNumbers = 1e8 // numbers of as many digits, none above its highest: fewer occur by chance where digits stand apart
	maxNumber  = 256 // bytes of a value that is found in base58

	maxValues = 16384   // values and lines
	wordSize  = 80      // bytes of a word besides its symbols
	maxBytes  = 8 << 20 // bytes of words, text, hex and base64 apart: with more, the rarest are left out
)

// forms are the words of both views, and the room that is left for more.
type forms struct {
	all, letters, raw []word
	room              int
}

// formsOf returns the words of values, and takes ownership of them. Those of keys are matched as text only. The commonest encodings of all values
// come before the rarest of the first, so that memory and time stay bounded.
func formsOf(values, keys [][]byte) *forms {
	f := &forms{room: math.MaxInt}
	for _, v := range slices.Concat(values, keys) {
		f.addText(v)
	}
	for _, v := range values {
		f.addEncoded(v)
	}
	f.room = maxBytes
	for _, add := range []func([]byte){f.addRest, f.addApart, f.addNumbers, f.addBase32, f.addDerived, f.addRare} {
		for _, v := range values {
			if f.room > 0 {
				add(v)
			}
		}
	}
	return f
}

// views returns the symbols of a value in both views.
func views(v []byte) (all, letters []byte) {
	s := scan{inLine: true}
	for i := 0; i < len(v); {
		i += s.read(escaped{v, true}, i, int64(i))
	}
	return s.all.seen, s.letters.seen
}

// addText adds a value as text. What stands before it may take its first characters into an escape: the n of \new, for
// one. As it is, it is found all the same; in other spellings, its rest is.
func (f *forms) addText(v []byte) {
	f.addRaw(v)
	whole, _ := views(v)
	if !distinctive(whole) {
		for _, form := range spellings(v) {
			f.addRaw([]byte(form))
		}
		return
	}
	f.addAll(whole)
	if v[len(v)-1] == '=' {
		f.all[len(f.all)-1].tail = 1
	}
	for _, before := range []byte{'\\', '%'} {
		behind, _ := views(append([]byte{before}, v...))
		n := 0
		for n < min(len(behind), len(whole)) && behind[len(behind)-1-n] == whole[len(whole)-1-n] {
			n++
		}
		f.addAll(whole[len(whole)-n:])
	}
	if !ascii(v) {
		for _, form := range [][]byte{bytes.ToUpper(v), bytes.ToLower(v), latin1(v), quoted(v), units(v, binary.LittleEndian, 2), units(v, binary.BigEndian, 2),
			units(v, binary.LittleEndian, 4), units(v, binary.BigEndian, 4)} {
			form, _ = views(form)
			f.addAll(form)
		}
	} else if bytes.IndexByte(v, '=') >= 0 {
		form, _ := views(quoted(v))
		f.addAll(form)
	}
}

// addRaw adds a form that is found as it is only.
func (f *forms) addRaw(form []byte) {
	if len(form) >= window {
		f.raw = append(f.raw, word{symbols: form, spacing: loose})
		f.room -= len(form) + wordSize
	}
}

// entities are how libraries write symbols in pages and XML, besides &amp;, &lt; and &gt;.
var entities = [][]string{
	{},                           // text of XML
	{`"`, "&#34;", "'", "&#39;"}, // Go, Jinja
	// Go's templates, and these without quotes:
	{`"`, "&#34;", "'", "&#39;", "+", "&#43;"},
	{`"`, "&#34;", "'", "&#39;", "+", "&#43;", "=", "&#61;", "`", "&#96;", " ", "&#32;"},
	{`"`, "&quot;", "'", "&#39;"},  // Ruby, JavaScript
	{`"`, "&quot;", "'", "&#x27;"}, // Python
	{`"`, "&quot;", "'", "&#039;"}, // PHP
	{`"`, "&quot;", "'", "&apos;"}, // Java, XML
	// Mustache, and Handlebars:
	{`"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;", "=", "&#x3D;"},
	{`"`, "&quot;", "'", "&#39;", "/", "&#x2F;", "`", "&#x60;", "=", "&#x3D;", "+", "&#43;"},
}

// escapes matches the escapes of an address, and of one within another. Some programs write their digits with small letters.
var escapes = lazy.Regexp(`%(?:25)*[0-9A-F]{2}`)

// spellings are how programs and servers write a value that is found as it is only.
func spellings(v []byte) (all []string) {
	text := string(v)
	all = append(all, quotedJSON(v), strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text))
	for _, format := range []string{"%%%02x", "%%%02X", `\u%04x`, `\u%04X`} {
		all = append(all, string(spelled(v, format)))
	}
	for _, more := range entities {
		page := strings.NewReplacer(append([]string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}, more...)...).Replace(text)
		all = append(all, page, quotedJSON([]byte(page)))
	}
	query := url.QueryEscape(text)
	for _, once := range []string{query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(text)} {
		for _, form := range []string{once, url.QueryEscape(once)} {
			all = append(all, form, escapes().ReplaceAllStringFunc(form, strings.ToLower))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// quotedJSON returns v as JSON has it, without the quotes.
func quotedJSON(v []byte) string {
	text, err := json.Marshal(string(v))
	if err != nil {
		return ""
	}
	return string(text[1 : len(text)-1])
}

func (f *forms) addAll(symbols []byte) {
	if len(symbols) >= window {
		f.all = append(f.all, word{symbols: symbols, spacing: loose})
		f.room -= len(symbols) + wordSize
	}
}

// addLetters adds the letters and digits of a form.
func (f *forms) addLetters(form []byte, spacing spacing, tail uint8) {
	symbols := make([]byte, 0, len(form))
	behind := tail
	for _, b := range form {
		if k := &bytesOf[b]; k.isLetter {
			symbols, behind = append(symbols, k.letter), tail
		} else if tail > 0 {
			behind++
		}
	}
	if len(symbols) >= window {
		f.letters = append(f.letters, word{symbols, spacing, behind})
		f.room -= len(symbols) + wordSize
	}
}

// addEncoded adds a value in hex, and in base64 at all offsets.
func (f *forms) addEncoded(v []byte) {
	f.addLetters(hex.AppendEncode(nil, v), loose, 0)
	for offset := range 3 {
		f.addLetters(inner(base64.RawStdEncoding, 6, offset, v), loose, 2)
	}
}

// addRest adds what is left of an encoded value where an escape took its first characters.
func (f *forms) addRest(v []byte) { f.addEncoded(v[1:]) }

// encoding is base64 or base32.
type encoding interface {
	AppendEncode(dst, src []byte) []byte
}

// inner returns the characters, of so many bits, that encode nothing but v where v is at an offset of the data. The
// characters that it shares with what stands beside it are left out: at most 4 bits of the secret show before it.
func inner(e encoding, bits, offset int, v []byte) []byte {
	data := append(make([]byte, offset, offset+len(v)), v...)
	defer clear(data)
	return e.AppendEncode(nil, data)[(8*offset+bits-1)/bits : 8*len(data)/bits]
}

func (f *forms) addBase32(v []byte) {
	for offset := range 5 {
		for _, e := range []*base32.Encoding{base32.StdEncoding, base32.HexEncoding} {
			f.addLetters(inner(e.WithPadding(base32.NoPadding), 5, offset, v), loose, 2)
		}
	}
}

// addApart adds a value with something between its characters. Digits apart are usually a list of small numbers, so a
// number must be too long for chance.
func (f *forms) addApart(v []byte) {
	_, letters := views(v)
	if len(v) < minApart {
		return
	}
	how := apart
	number, up, low := false, false, false
	for _, c := range v {
		number, up, low = number || isDigit(c), up || 'A' <= c && c <= 'Z', low || 'a' <= c && c <= 'z'
	}
	switch {
	case !slices.ContainsFunc(v, func(c byte) bool { return !isDigit(c) && c != ' ' && c != '-' }):
		if !rare(letters) {
			return
		}
		if len(letters) >= minLoose {
			how = loose
		}
	case len(v) >= minLoose && len(letters) >= minApart && number && (up || low):
		how = loose
	case len(letters) >= minLoose && up && low:
		how |= solid
	}
	f.addLetters(letters, how, 0)
}

// addNumbers adds a value as a list of numbers.
func (f *forms) addNumbers(v []byte) {
	for _, format := range []string{"0x%02x", "%d", "%o", "%03o", "0o%o", "%08b", "%b", "0b%b", "u%04x", "chr%d"} {
		f.addLetters(spelled(v, format), loose, 0)
	}
}

func spelled(v []byte, format string) []byte {
	all := make([]byte, 0, 4*len(v))
	for _, b := range v {
		all = fmt.Appendf(all, format, b)
	}
	return all
}

// addDerived adds a value that was transformed once, and then encoded.
func (f *forms) addDerived(v []byte) {
	if len(v) < minApart {
		return
	}
	for _, form := range [][]byte{reversed(v), rot13(v)} {
		all, letters := views(form)
		if digitsOnly(v) { // numbers that count down are no secret
			f.addAll(all)
		} else {
			f.addLetters(letters, loose, 0)
		}
		f.addEncoded(form)
	}
	f.addEncoded(units(v, binary.LittleEndian, 2))
	inHex := hex.AppendEncode(nil, v)
	f.addEncoded(inHex)
	f.addEncoded(bytes.ToUpper(inHex))
	for _, form := range inBase64s(v) {
		f.addEncoded(form)
	}
}

// addRare adds rare transformations of a value.
func (f *forms) addRare(v []byte) {
	if len(v) < minApart {
		return
	}
	if !ascii(v) {
		_, letters := views(reversedRunes(v))
		f.addLetters(letters, loose, 0)
		f.addEncoded(units(v, binary.BigEndian, 2))
		f.addEncoded(units(v, binary.BigEndian, 4))
	}
	f.addEncoded(units(v, binary.LittleEndian, 4))
	f.addLetters(spelled(units(v, binary.LittleEndian, 2), "%d"), loose, 0)
	f.addLetters(reversed(hex.AppendEncode(nil, v)), loose, 0)
	for _, form := range inBase64s(v) {
		f.addLetters(reversed(form), loose, 0)
		f.addLetters(rot13(form), loose, 0)
	}
	for _, whole := range [][]byte{v, append(bytes.Clone(v), '\n'), v[:len(v)/4*4]} {
		for _, form := range base85(whole) {
			form, _ = views(form)
			f.addAll(form)
		}
		if len(v) <= maxNumber {
			f.addLetters(base58(whole), loose, 0)
		}
	}
}

// inBase64s returns v in base64 and base64url, at all offsets.
func inBase64s(v []byte) (all [][]byte) {
	for offset := range 3 {
		form := inner(base64.RawStdEncoding, 6, offset, v)
		all = append(all, form)
		if bytes.ContainsAny(form, "+/") {
			all = append(all, inner(base64.RawURLEncoding, 6, offset, v))
		}
	}
	return all
}

func ascii(v []byte) bool {
	return !slices.ContainsFunc(v, func(c byte) bool { return c >= 0x80 })
}

func digitsOnly(v []byte) bool {
	return !slices.ContainsFunc(v, func(c byte) bool { return !isDigit(c) })
}

// rare reports whether a list of single digits, none above the highest of number, is unlikely to spell number by
// chance or by counting.
func rare(number []byte) bool {
	return len(number) > 0 && math.Pow(float64(slices.Max(number)-'0'+1), float64(len(number))) >= minNumbers &&
		!bytes.Contains(counts(), number)
}

// counts returns the digits of counting: 0 to 9 again and again, 0 to 99, and 99 to 0.
var counts = sync.OnceValue(func() []byte {
	all := bytes.Repeat([]byte("0123456789"), 7)
	for n := range 100 {
		all = fmt.Append(all, n)
	}
	for n := range 100 {
		all = fmt.Append(all, 99-n)
	}
	return append(all, bytes.Repeat([]byte("9876543210"), 7)...)
})

func reversed(v []byte) []byte {
	r := bytes.Clone(v)
	slices.Reverse(r)
	return r
}

func reversedRunes(v []byte) []byte {
	r := bytes.Runes(v)
	slices.Reverse(r)
	return []byte(string(r))
}

func rot13(v []byte) []byte {
	r := bytes.Clone(v)
	for i, c := range r {
		if low := c | 0x20; 'a' <= low && low <= 'z' {
			r[i] = c - low + 'a' + (low-'a'+13)%26
		}
	}
	return r
}

// latin1 returns v with a byte for each character, where there is one.
func latin1(v []byte) (l []byte) {
	for len(v) > 0 {
		r, n := utf8.DecodeRune(v)
		if r <= unicode.MaxLatin1 {
			l = append(l, byte(r))
		} else {
			l = append(l, v[:n]...)
		}
		v = v[n:]
	}
	return l
}

// quoted returns v as mail has it.
func quoted(v []byte) (q []byte) {
	for _, c := range v {
		if c == '=' || c >= 0x80 {
			q = fmt.Appendf(q, "=%02X", c)
		} else {
			q = append(q, c)
		}
	}
	return q
}

// units returns v in UTF-16 or UTF-32, of which size is the bytes of a unit, without the zeros at its
// ends: that of a letter is the same in both orders of bytes then.
func units(v []byte, order binary.AppendByteOrder, size int) []byte {
	var u []byte
	for _, r := range string(v) {
		if size == 4 {
			u = order.AppendUint32(u, uint32(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			u = order.AppendUint16(u, unit)
		}
	}
	return bytes.Trim(u, "\x00")
}

// base85 returns v in Adobe's alphabet, and in that of RFC 1924, which Python and git use.
func base85(v []byte) [][]byte {
	const rfc1924 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	adobe := make([]byte, ascii85.MaxEncodedLen(len(v)))
	adobe = adobe[:ascii85.Encode(adobe, v)]
	python := bytes.Clone(adobe)
	for i, c := range adobe {
		if c != 'z' {
			python[i] = rfc1924[c-'!']
		}
	}
	return [][]byte{adobe, python}
}

func base58(v []byte) []byte {
	const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	n, mod, base := new(big.Int).SetBytes(v), new(big.Int), big.NewInt(58)
	var b []byte
	for n.Sign() > 0 {
		n.DivMod(n, base, mod)
		b = append(b, alphabet[mod.Int64()])
	}
	slices.Reverse(b)
	return b
}
