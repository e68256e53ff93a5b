package vault

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

const (
	minLoose   = 12 // bytes of a value that is found with separators between its characters, in either case
	minLetters = 8  // letters and digits of such a value, and bytes of a value that is found transformed
	minAlone   = 32 // letters of such a value without digits: the first lines of different keys have fewer in common

	maxValues = 16384   // values and lines
	wordSize  = 80      // bytes of a word besides its symbols
	maxBytes  = 8 << 20 // bytes of words besides text, hex and base64: beyond it, the rarest encodings are left out
)

// forms are the words of the views, and the bytes left for more.
type forms struct {
	all, letters, raw []word
	room              int
}

// newForms returns the words of values, and takes ownership of them. Those of keys are matched as text only. The
// commonest encodings of all values come before the rarest of the first, so that memory and time stay bounded.
func newForms(values, keys [][]byte) *forms {
	f := &forms{room: math.MaxInt}
	for _, v := range slices.Concat(values, keys) {
		f.addText(v)
	}
	for _, v := range values {
		f.addEncoded(v)
	}
	f.room = maxBytes
	for _, add := range []func([]byte){f.addRest, f.addApart, f.addNumbers, f.addBase32, f.addDerived} {
		for _, v := range values {
			if f.room > 0 {
				add(v)
			}
		}
	}
	return f
}

// viewSymbols returns the symbols of a value in both views.
func viewSymbols(v []byte) (all, letters []byte) {
	var s scan
	for i := 0; i < len(v); {
		i += s.readChar(escaped{v, true}, i, int64(i))
	}
	return s.all.history, s.letters.history
}

// addText adds a value as text. Text before it may turn its first characters into an escape, such as the n of \new, for
// one. As it is, it is found all the same; in other spellings, its rest is.
func (f *forms) addText(v []byte) {
	whole, _ := viewSymbols(v)
	f.raw = f.appendWord(f.raw, word{symbols: v})
	if !isDistinctive(whole) { // the value is an escape itself: find it raw, and as programs and servers write it
		for _, form := range spellings(v) {
			f.raw = f.appendWord(f.raw, word{symbols: []byte(form)})
		}
		return
	}
	tail := uint8(bytes.Count(v[len(v)-1:], []byte("="))) // = is not a symbol
	f.addAll(whole, tail)
	for _, before := range []byte{'\\', '%'} {
		behind, _ := viewSymbols(append([]byte{before}, v...))
		n := 0
		for n < min(len(behind), len(whole)) && behind[len(behind)-1-n] == whole[len(whole)-1-n] {
			n++
		}
		f.addAll(whole[len(whole)-n:], tail)
	}
	for _, form := range [][]byte{quotedPrintable(v), latin1(v), utf16Core(v, binary.LittleEndian), utf16Core(v, binary.BigEndian)} {
		form, _ = viewSymbols(form)
		f.addAll(form, 0)
	}
}

// entities are the entities that libraries write in HTML and XML, besides &amp;, &lt; and &gt;.
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

// percentEscapes matches the escapes of a URL, also of one within another. Some programs write lower-case digits.
var percentEscapes = lazy.Regexp(`%(?:25)*[0-9A-F]{2}`)

// spellings are the ways in which programs and servers write a value that is only found raw.
func spellings(v []byte) (all []string) {
	text, quote := string(v), strconv.Quote(string(v))
	all = append(all, quotedJSON(text), quote[1:len(quote)-1]) // Go escapes more characters in JSON than others
	for _, more := range entities {
		page := strings.NewReplacer(append([]string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}, more...)...).Replace(text)
		all = append(all, page, quotedJSON(page))
	}
	query := url.QueryEscape(text)
	for _, once := range []string{query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(text)} {
		for _, form := range []string{once, url.QueryEscape(once)} {
			all = append(all, form, percentEscapes().ReplaceAllStringFunc(form, strings.ToLower))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// quotedJSON returns text as the content of a JSON string, without the quotes.
func quotedJSON(text string) string {
	quoted, _ := json.Marshal(text) // can't fail for a string
	return string(quoted[1 : len(quoted)-1])
}

// appendWord adds a word to those of a view if it is long enough.
func (f *forms) appendWord(words []word, w word) []word {
	if len(w.symbols) < window {
		return words
	}
	f.room -= len(w.symbols) + wordSize
	return append(words, w)
}

func (f *forms) addAll(symbols []byte, tail uint8) { f.all = f.appendWord(f.all, word{symbols, tail}) }

// addLetters adds the letters and digits of a form.
func (f *forms) addLetters(form []byte, tail uint8) {
	symbols := make([]byte, 0, len(form))
	behind := tail
	for _, b := range form {
		if k := &byteClasses[b]; k.letter != 0 {
			symbols, behind = append(symbols, k.letter), tail
		} else if tail > 0 {
			behind++
		}
	}
	f.letters = f.appendWord(f.letters, word{symbols, behind})
}

// addEncoded adds a value in hex, and in base64 at all offsets.
func (f *forms) addEncoded(v []byte) {
	f.addLetters(hex.AppendEncode(nil, v), 0)
	for offset := range 3 {
		f.addLetters(encodedCore(base64.RawStdEncoding, 6, offset, v), 2)
	}
}

// addRest adds the rest of an encoded value whose first characters an escape took.
func (f *forms) addRest(v []byte) {
	f.addEncoded(v[1:])
	f.addLetters(hex.AppendEncode(nil, v[2:]), 0)
}

// encodedCore returns the characters, of that many bits each, that encode only v where v is at an offset of the data.
// Characters shared with neighbouring bytes are left out: they show at most 4 bits of the secret.
func encodedCore(e interface{ AppendEncode(dst, src []byte) []byte }, bits, offset int, v []byte) []byte {
	data := append(make([]byte, offset, offset+len(v)), v...)
	defer clear(data)
	return e.AppendEncode(nil, data)[(8*offset+bits-1)/bits : 8*len(data)/bits]
}

func (f *forms) addBase32(v []byte) {
	for offset := range 5 {
		f.addLetters(encodedCore(base32.StdEncoding.WithPadding(base32.NoPadding), 5, offset, v), 2)
	}
}

// addApart adds a value with separators between its characters. It must have letters, and digits or very many letters,
// because words and lists of numbers may match other values.
func (f *forms) addApart(v []byte) {
	_, letters := viewSymbols(v)
	hasLetters, hasDigits := !bytes.Equal(bytes.ToLower(v), bytes.ToUpper(v)), slices.ContainsFunc(v, isDigit)
	if len(v) >= minLoose && len(letters) >= minLetters && hasLetters && (hasDigits || len(letters) >= minAlone) {
		f.addLetters(letters, 0)
	}
}

// addNumbers adds a value as a list of numbers.
func (f *forms) addNumbers(v []byte) {
	for _, format := range []string{"0x%02x", "%d", "%o", "%03o", "0o%o", "%08b", "%b", "0b%b", "u%04x", "chr%d"} {
		var all []byte
		for _, b := range v {
			all = fmt.Appendf(all, format, b)
		}
		f.addLetters(all, 0)
	}
}

// addDerived adds a value that was transformed once, and then encoded.
func (f *forms) addDerived(v []byte) {
	if len(v) < minLetters {
		return
	}
	backwards := bytes.Runes(v)
	slices.Reverse(backwards)
	for _, form := range [][]byte{[]byte(string(backwards)), bytes.Map(rot13, v)} {
		all, _ := viewSymbols(form)
		f.addAll(bytes.TrimLeft(all, `}])>"`), 0) // closing brackets that end messages
		f.addEncoded(form)
	}
	inHex := hex.AppendEncode(nil, v)
	for _, form := range [][]byte{utf16Core(v, binary.LittleEndian), inHex, bytes.ToUpper(inHex)} {
		f.addEncoded(form)
	}
	for offset := range 3 {
		f.addEncoded(encodedCore(base64.RawStdEncoding, 6, offset, v))
		f.addEncoded(encodedCore(base64.RawURLEncoding, 6, offset, v))
	}
}

func rot13(c rune) rune {
	if low := c | 0x20; 'a' <= low && low <= 'z' {
		return c - low + 'a' + (low-'a'+13)%26
	}
	return c
}

// quotedPrintable returns v in quoted-printable.
func quotedPrintable(v []byte) (q []byte) {
	for _, c := range v {
		if c == '=' || c >= 0x80 || c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			q = fmt.Appendf(q, "=%02X", c)
		} else {
			q = append(q, c)
		}
	}
	return q
}

// latin1 returns v with one byte for each Latin-1 character, as Python and JavaScript escape them.
func latin1(v []byte) (l []byte) {
	for _, r := range string(v) {
		if l = append(l, byte(r)); r > 0xff {
			l = append(l[:len(l)-1], string(r)...)
		}
	}
	return l
}

// utf16Core returns v in UTF-16 without the zeros at its ends: then ASCII is the same in both byte orders.
func utf16Core(v []byte, order binary.AppendByteOrder) (u []byte) {
	for _, unit := range utf16.Encode([]rune(string(v))) {
		u = order.AppendUint16(u, unit)
	}
	return bytes.Trim(u, "\x00")
}
