package vault

import (
	"bytes"
	"encoding/ascii85"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	minCaseless = 12  // bytes of a value that is found in upper and lower case; it has digits or both, too
	minSpaced   = 8   // bytes of a value that is found with something between its characters
	minGrouped  = 12  // digits of a number that is found with something between some of them
	minNumbers  = 1e8 // numbers of as many digits, none above its highest: fewer occur by chance where digits stand apart
	minDerived  = 8   // bytes of a value that is found transformed, and of what it becomes then
	maxNumber   = 256 // bytes of a value that is found in base58
)

// With more values and lines of values in a lease, fewer forms are matched, so that memory and time stay bounded. First
// the rare forms are left out (see addRare), then all that is transformed or encoded twice, and base32; then lists of
// characters and numbers, and escaped letters; at last lines. Values come before lines.
const (
	maxRare    = 128       // values that are looked for in all forms
	maxDerived = 1024      // ... transformed or encoded twice
	maxBasic   = 4096      // ... with letters escaped, and in lists; others only as text, in hex and base64
	maxValues  = 16384     // values and lines
	maxBytes   = 256 << 10 // bytes of values that are looked for transformed, encoded twice, or in base32
)

// forms are the words to match in each encoding.
type forms [numEncodings][]word

// formsOf takes ownership of the values, and returns them with their transformations, which are matched like values.
func formsOf(values [][]byte) *forms {
	f := &forms{}
	size := 0
	for i, v := range values {
		size += len(v)
		if i >= maxBasic {
			f.add(lower(v), asCaseless)
			f.addEncoded(v)
			continue
		}
		f.add(v, asText, asHex, asDecimal, asOctal, asBinary)
		f.addBits(v, asBase64, 6)
		f.addApart(v)
		if size <= maxBytes {
			f.addBits(v, asBase32, 5)
			f.addBits(v, asBase32Hex, 5)
		}
	}
	size = 0
	for i, v := range values[:min(len(values), maxDerived)] {
		if size += len(v); size > maxBytes || len(v) < minDerived {
			continue
		}
		f.addDerived(v)
		if i < maxRare {
			f.addRare(v)
		}
	}
	return f
}

func (f *forms) add(v []byte, in ...encoding) {
	for _, w := range in {
		f[w] = append(f[w], word{symbols: v})
	}
}

// addApart adds a value that is matched with separators between its characters. Separated digits are usually a list of
// small numbers, so a number must be too long for chance.
func (f *forms) addApart(v []byte) {
	if len(v) < minSpaced {
		return
	}
	if slices.ContainsFunc(v, func(c byte) bool { return !isDigit(c) && c != ' ' && c != '-' }) {
		f.add(v, asSpaced)
		return
	}
	number := slices.DeleteFunc(bytes.Clone(v), func(c byte) bool { return !isDigit(c) })
	if rare(number) {
		f.add(number, asSpaced)
		if len(number) >= minGrouped {
			f.add(number, asGrouped)
		}
	}
}

// addText adds a form that is matched as text, in either case, without leading characters that messages end with:
// these would be held back until the next message.
func (f *forms) addText(v []byte) {
	v = bytes.TrimLeft(v, "\n\r \"'.;>)]}")
	if len(v) >= minDerived {
		f.add(lower(v), asCaseless)
	}
}

// addEncoded adds a form that is matched in hex and base64 only.
func (f *forms) addEncoded(v []byte) {
	f.add(v, asHex)
	f.addBits(v, asBase64, 6)
}

// addBits adds v as it appears in the middle of other data, encoded in characters of size bits, at all offsets. The
// bits that it shares with a preceding character are left out, so at most 4 bits of the secret show.
func (f *forms) addBits(v []byte, in encoding, size int) {
	for offset := range size {
		if skip := (size - 8*offset%size) % size; offset == 0 || skip > 0 && (size != 6 || offset < 3) {
			f[in] = append(f[in], bitsOf(v, skip, size))
		}
	}
}

// bitsOf returns v without its first bits, as characters of size bits.
func bitsOf(v []byte, skip, size int) word {
	n := 8*len(v) - skip
	w := word{symbols: make([]byte, 0, n/size)}
	at := func(bit int) byte {
		window := uint16(v[bit/8]) << 8
		if bit/8+1 < len(v) {
			window |= uint16(v[bit/8+1])
		}
		return byte(window>>(16-size-bit%8)) & (1<<size - 1)
	}
	for bit := skip; bit+size <= 8*len(v); bit += size {
		w.symbols = append(w.symbols, at(bit))
	}
	if rest := n % size; rest > 0 {
		pads := map[int]map[int]int{6: {2: 2, 4: 1}, 5: {3: 6, 1: 4, 4: 3, 2: 1}}[size][rest]
		w.suffix = suffix{bits: at(8*len(v) - rest), known: uint8(rest), size: uint8(size), pads: uint8(pads)}
	}
	return w
}

// addDerived adds a value transformed once, and twice.
func (f *forms) addDerived(v []byte) {
	if len(v) >= minCaseless && mixed(v) {
		f.addText(v)
	}
	wide := [][]byte{units(v, binary.LittleEndian, 2)}
	if !ascii(v) {
		wide = append(wide, units(v, binary.BigEndian, 2))
		f.add(bytes.ToUpper(v), asText)
		f.add(bytes.ToLower(v), asText)
		f.add(latin1(v), asText, asDecimal)
		f.addText(reversedRunes(v))
	}
	for _, w := range wide {
		f.addText(w)
		f.addEncoded(w)
	}
	for _, form := range [][]byte{reversed(v), rot13(v)} {
		f.addText(form)
		f.addEncoded(form)
	}
	inHex := hex.AppendEncode(nil, v)
	f.addEncoded(inHex)
	f.addEncoded(bytes.ToUpper(inHex))
	for _, form := range inBase64s(v) {
		f.addEncoded(form)
	}
}

// addRare adds rare transformations of a value.
func (f *forms) addRare(v []byte) {
	wide := [][]byte{units(v, binary.LittleEndian, 4)}
	if !ascii(v) {
		wide = append(wide, units(v, binary.BigEndian, 4))
	}
	for _, w := range wide {
		f.addText(w)
		f.addEncoded(w)
	}
	f.add(units(v, binary.LittleEndian, 2), asDecimal)
	f.addText(reversed(hex.AppendEncode(nil, v)))
	for _, form := range inBase64s(v) {
		f.addText(reversed(form))
		f.addText(rot13(form))
	}
	f.addWhole(v)
	f.addWhole(append(bytes.Clone(v), '\n'))
}

func ascii(v []byte) bool {
	return !slices.ContainsFunc(v, func(c byte) bool { return c >= 0x80 })
}

// inBase64s returns v in base64 and base64url, at all offsets.
func inBase64s(v []byte) (all [][]byte) {
	for offset := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			form := inBase64(v, offset, encoding)
			if len(form) >= minDerived && (encoding == base64.RawStdEncoding || bytes.ContainsAny(form, "-_")) {
				all = append(all, form)
			}
		}
	}
	return all
}

// addWhole adds encodings in which a value can only be recognized when it was encoded by itself.
func (f *forms) addWhole(v []byte) {
	for _, whole := range [][]byte{v, v[:len(v)/4*4]} {
		for _, form := range base85(whole) {
			f.addText(form)
		}
	}
	for _, zero := range []byte{'`', ' '} {
		f.addText(uuencode(v, zero))
		f.addText(uuencode(v[:len(v)/3*3], zero))
	}
	if len(v) <= maxNumber {
		f.addText(base58(v))
	}
}

func lower(v []byte) []byte {
	low := bytes.Clone(v)
	for i, c := range low {
		if 'A' <= c && c <= 'Z' {
			low[i] = c + 'a' - 'A'
		}
	}
	return low
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

// mixed reports whether v is no word: it has digits, or letters of both cases.
func mixed(v []byte) bool {
	var up, low, digit bool
	for _, c := range v {
		up = up || 'A' <= c && c <= 'Z'
		low = low || 'a' <= c && c <= 'z'
		digit = digit || isDigit(c)
	}
	return up && low || digit && (up || low)
}

func reversed(v []byte) []byte {
	r := bytes.Clone(v)
	slices.Reverse(r)
	return r
}

func reversedRunes(v []byte) []byte {
	var r []byte
	for len(v) > 0 {
		_, size := utf8.DecodeLastRune(v)
		r = append(r, v[len(v)-size:]...)
		v = v[:len(v)-size]
	}
	return r
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
func latin1(v []byte) []byte {
	var l []byte
	for _, r := range string(v) {
		if r > unicode.MaxLatin1 {
			return bytes.Clone(v)
		}
		l = append(l, byte(r))
	}
	return l
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

// inBase64 returns the characters that encode nothing but v where v is at an offset of the data.
func inBase64(v []byte, offset int, encoding *base64.Encoding) []byte {
	data := append(make([]byte, offset, offset+len(v)), v...)
	defer clear(data)
	return encoding.AppendEncode(nil, data)[(8*offset+5)/6 : 8*len(data)/6]
}

// base85 returns v in Adobe's and btoa's alphabet, in that of RFC 1924, which Python and git use, and in Z85.
func base85(v []byte) [][]byte {
	const rfc1924 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
	const z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
	adobe := make([]byte, ascii85.MaxEncodedLen(len(v)))
	adobe = adobe[:ascii85.Encode(adobe, v)]
	python, zeromq := bytes.Clone(adobe), bytes.Clone(adobe)
	for i, c := range adobe {
		if c != 'z' {
			python[i], zeromq[i] = rfc1924[c-'!'], z85[c-'!']
		}
	}
	return [][]byte{adobe, python, zeromq}
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

// uuencode returns the lines of v, the first without its length. Programs differ in how they write six zeros.
func uuencode(v []byte, zero byte) []byte {
	var u []byte
	for line := range slices.Chunk(v, 45) {
		if len(u) > 0 {
			u = append(u, '\n', ' '+byte(len(line)))
		}
		for group := range slices.Chunk(line, 3) {
			var g [3]byte
			copy(g[:], group)
			for _, sextet := range [4]byte{g[0] >> 2, g[0]&3<<4 | g[1]>>4, g[1]&15<<2 | g[2]>>6, g[2] & 63} {
				if sextet == 0 {
					u = append(u, zero)
				} else {
					u = append(u, ' '+sextet)
				}
			}
		}
	}
	return u
}
