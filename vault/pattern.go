package vault

import "strings"

// encoding is a way in which programs write bytes as text.
type encoding uint8

const (
	asText encoding = iota // as it is, or with any of its bytes escaped for JSON or a URL
	asHex
	asBase64At0 // base64 or base64url of data that holds the value at an offset that 3 divides
	asBase64At1 // ... at an offset with the remainder 1
	asBase64At2
	encodings
)

// skipBits is how many of the value's first bits share a base64 character with what stands before
// the value. That character is left in the text: at most 4 bits of the secret show.
var skipBits = [encodings]int{asBase64At0: 0, asBase64At1: 4, asBase64At2: 2}

// pattern is all spellings of a value in one encoding. They are not listed, but followed byte by
// byte: with each byte escaped or not there are too many.
type pattern struct {
	value []byte
	enc   encoding
	need  int32 // symbols that make a match: bytes of text, hex digits or base64 characters
	size  int32 // symbols at most: with the base64 character after the last whole one, and padding
}

func newPattern(value []byte, enc encoding) pattern {
	n := int32(len(value))
	p := pattern{value: value, enc: enc}
	switch enc {
	case asText:
		p.need, p.size = n, n
	case asHex:
		p.need, p.size = 2*n, 2*n
	default:
		bits := 8*n - int32(skipBits[enc])
		p.need = bits / 6
		p.size = p.need + [3]int32{0, 3, 2}[bits%6/2] // one character more and == for 2 bits, = for 4
	}
	return p
}

// cursor is how far into a pattern the text has come: symbols read, and the state within the next.
type cursor struct {
	symbols int32
	state   state
}

// state is where in the spelling of one symbol the text is.
type state uint8

const (
	start      state = iota
	afterBreak       // start, but there was a line break just now, and a second may not follow
	breakLF          // \r was read: \n must follow
	breakSlash       // \r was read, written out: \n must follow, written out
	breakN           // ... and its backslash was read
	pairHigh         // % or \x was read
	pairLow          // ... and a hex digit
	slash            // a backslash was read
	unit0            // \u was read: four hex digits follow, in the states unit0 to unit3
	unit1            //
	unit2            //
	unit3            //
	lowSlash         // the second half of a surrogate pair follows: \u and four digits
	lowU             //
	low0             //
	low1             //
	low2             //
	low3             //
	dead             // the text is no spelling of the pattern
)

var nowhere = cursor{state: dead}

// step returns where b leads from c: nowhere, to one place, or to two where b is either itself or
// the beginning of an escape. No symbol takes more than ten bytes, a line break written out as \r\n and
// then \u002b, so what is held back is bounded.
func (p *pattern) step(c cursor, b byte) (next, other cursor) {
	if p.enc == asText {
		return p.stepText(c, b)
	}
	return p.stepFolded(c, b), nowhere
}

func (p *pattern) stepText(c cursor, b byte) (next, other cursor) {
	next, other = nowhere, nowhere
	want := p.value[c.symbols:]
	if c.state == start && (b == want[0] || b == '+' && want[0] == ' ') {
		next = cursor{symbols: c.symbols + 1}
	}
	if s, n := escape(want, c.state, b); s != dead {
		other = cursor{c.symbols + int32(n), s}
	}
	if next.state == dead {
		return other, nowhere
	}
	return next, other
}

// stepFolded is the step in hex and base64, where a line break may stand between any two symbols.
func (p *pattern) stepFolded(c cursor, b byte) cursor {
	if c.symbols > 0 {
		if s := lineBreak(c.state, b); s != dead {
			return cursor{c.symbols, s}
		}
	}
	atStart := c.state == start || c.state == afterBreak
	if atStart && p.accepts(c.symbols, b) {
		return cursor{symbols: c.symbols + 1}
	}
	if p.enc == asHex {
		return nowhere
	}
	if c.state == afterBreak {
		c.state = start
	}
	// Of base64's characters, only these are ever escaped.
	for _, special := range [...]string{"+", "/", "="} {
		if !p.accepts(c.symbols, special[0]) {
			continue
		}
		if s, n := escape([]byte(special), c.state, b); s != dead {
			return cursor{c.symbols + int32(n), s}
		}
	}
	return nowhere
}

// accepts reports whether b is the symbol number i.
func (p *pattern) accepts(i int32, b byte) bool {
	if p.enc == asHex {
		digit := p.value[i/2] >> 4
		if i%2 == 1 {
			digit = p.value[i/2] & 15
		}
		return unhex(b) == digit
	}
	if i > p.need {
		return b == '='
	}
	got := sextets[b]
	want, known := p.sextet(i)
	return got < 64 && got>>(6-known) == want>>(6-known)
}

// sextet returns the value of base64 character i, and how many of its bits are known: 6, and fewer
// in the one that the value shares with what follows it.
func (p *pattern) sextet(i int32) (value byte, known int) {
	bit := skipBits[p.enc] + 6*int(i)
	window := uint16(p.value[bit/8]) << 8
	if bit/8+1 < len(p.value) {
		window |= uint16(p.value[bit/8+1])
	}
	return byte(window>>(10-bit%8)) & 63, min(6, 8*len(p.value)-bit)
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// sextets maps characters of both base64 alphabets to their values, others to 64.
var sextets = func() (t [256]byte) {
	for i := range t {
		t[i] = 64
		if at := strings.IndexByte(alphabet, byte(i)); at >= 0 {
			t[i] = byte(at)
		}
	}
	t['-'], t['_'] = 62, 63
	return t
}()
