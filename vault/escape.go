package vault

import "unicode/utf16"

// maxEscaped bounds how often an escape may itself be escaped: \\\\u0041, %252541, &amp;amp;lt;.
const maxEscaped = 8

// escape reads a byte of an escape: %2F, %252F and \x2f for a byte, =2F of quoted-printable, \057, and \u002f,
// \U0000002f, \u{2f}, a pair of surrogates and &#47; for a character, and a backslash with a letter or with the
// character itself.
func (p *patterns) escape(k *steps, t thread, b byte) {
	switch t.state {
	case slash:
		p.escapeSlash(k, t, b)
	case pair:
		p.escapePair(k, t, b)
	case unit:
		if b == '{' && t.count == 0 {
			k.add(t, brace)
		} else if p.digit(&t, b, 16, 4, 4) {
			p.escapeUnit(k, t)
		}
	case long:
		if p.digit(&t, b, 16, 8, 8) {
			p.complete(k, t, 8)
		}
	case brace, ampHex:
		if b == "};"[min(t.state-brace, 1)] && t.count > 0 {
			p.spell(k, t, rune(t.value))
		} else if p.digit(&t, b, 16, 1, 8) {
			k.add(t, t.state)
		}
	case octal:
		if p.digit(&t, b, 8, 1, 4) {
			p.spellByte(k, t)
			k.add(t, octal)
		}
	case lowSlash, lowU, low:
		p.escapeLow(k, t, b)
	default:
		p.escapeEntity(k, t, b)
	}
}

// beginEscape enters the escapes that b may be the first byte of.
func (p *patterns) beginEscape(k *steps, t thread, b byte) {
	if b != '\\' && b != '%' && b != '&' && b != '=' || !p.follows(&t, 0, 0xff) && !(b == '\\' && t.inside()) {
		return
	}
	t.digits = digits{}
	switch b {
	case '\\':
		t.tight = t.state == afterBreak // no second break
		t.run = 1
		k.add(t, slash)
	case '%':
		t.run = 1
		k.add(t, pair)
	case '=':
		t.tight = t.state == afterBreak
		t.run = 0
		k.add(t, pair)
	case '&':
		t.run = 1
		k.add(t, amp)
	}
}

func (p *patterns) escapeSlash(k *steps, t thread, b byte) {
	again := !t.tight && t.inside()
	if b == '\\' && t.run < maxEscaped {
		u := t
		u.run++
		k.add(u, slash)
	}
	t.digits = digits{}
	switch b {
	case 'x':
		t.run = 0
		t.tight = true // no line break, as behind the = of a mail
		k.add(t, pair)
	case 'u':
		k.add(t, unit)
	case 'U':
		k.add(t, long)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		if p.digit(&t, b, 8, 1, 4) {
			p.spellByte(k, t)
			k.add(t, octal)
		}
	case 'n', '\n':
		if again {
			k.add(t, afterBreak)
		}
	case 'r':
		if again {
			k.add(t, breakSlash)
		}
	}
	if c := meant(b); c != 0 {
		p.accept(k, t, c)
	}
}

// meant returns the meaning of b after a backslash, in JSON, JavaScript, Python or a shell, and 0 if it has none.
func meant(b byte) byte {
	switch b {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'v':
		return '\v'
	case 'a':
		return '\a'
	case 'e':
		return 0x1b
	}
	if ' ' <= b && b < 0x7f && (!isWord(b) || b == '_') {
		return b
	}
	return 0
}

func (p *patterns) escapePair(k *steps, t thread, b byte) {
	again := !t.tight && t.inside()
	switch {
	case t.count == 0 && t.run == 0 && b == '\n' && again: // the soft line break of a mail
		k.add(t, afterBreak)
	case t.count == 0 && t.run == 0 && b == '\r' && again:
		k.add(t, breakLF)
	case t.count == 0 && t.run > 0 && b == 'u':
		k.add(t, unit)
	case t.count == 0 && t.run == 0 && b == '{':
		k.add(t, brace)
	case t.run > 0 && t.run < maxEscaped && t.count == 0 && b == '2' && !p.follows(&t, 0x20, 0x2f):
		t.value, t.count = 2, 1 // of %25, which stands for the % of another
		k.add(t, pair)
	case t.run > 0 && t.run < maxEscaped && t.count == 1 && t.value == 2 && b == '5':
		p.accept(k, t, '%')
		t.run++
		t.digits = digits{}
		k.add(t, pair)
	case p.digit(&t, b, 16, 2, 2):
		if t.count < 2 {
			k.add(t, pair)
			return
		}
		p.spellByte(k, t)
	}
}

// spellByte reads the number as a byte and, if it is not ASCII, also as a character.
func (p *patterns) spellByte(k *steps, t thread) {
	if t.value <= 0xff {
		p.accept(k, t, byte(t.value))
	}
	if 0x80 <= t.value && t.value <= 0xff {
		p.spell(k, t, rune(t.value))
	}
}

// complete reads the number as a character once it has all its digits.
func (p *patterns) complete(k *steps, t thread, width uint8) {
	if t.count < width {
		k.add(t, t.state)
		return
	}
	p.spell(k, t, rune(t.value))
}

func (p *patterns) escapeUnit(k *steps, t thread) {
	if t.count == 4 && 0xd800 <= t.value && t.value < 0xdc00 {
		t.value <<= 16
		t.count = 0
		k.add(t, lowSlash)
		return
	}
	p.complete(k, t, 4)
}

func (p *patterns) escapeLow(k *steps, t thread, b byte) {
	switch {
	case t.state == lowSlash && (b == '\\' || b == '%'):
		t.run = 1
		k.add(t, lowU)
	case t.state == lowU && b == '\\' && t.run < maxEscaped:
		t.run++
		k.add(t, lowU)
	case t.state == lowU && b == 'u':
		k.add(t, low)
	case t.state == low && unhex(b) < 16:
		second := t.value<<4&0xffff | uint32(unhex(b))
		t.value = t.value&0xffff0000 | second
		if t.count++; t.count < 4 {
			k.add(t, low)
			return
		}
		p.spell(k, t, utf16.DecodeRune(rune(t.value>>16), rune(second)))
	}
}

// names are the named entities of characters with a meaning in HTML.
var names = []struct {
	name string // at most four letters, so that value holds them
	char byte
}{{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}

func (p *patterns) escapeEntity(k *steps, t thread, b byte) {
	switch {
	case t.state == amp && b == '#':
		k.add(t, ampNumber)
	case t.state == ampNumber && b|0x20 == 'x':
		k.add(t, ampHex)
	case t.state == ampNumber || t.state == ampDecimal && b != ';':
		if p.digit(&t, b, 10, 1, 8) {
			k.add(t, ampDecimal)
		}
	case t.state == ampDecimal:
		p.spell(k, t, rune(t.value))
	case b == ';':
		for _, n := range names {
			if t.value == letters(n.name) {
				p.accept(k, t, n.char)
			}
		}
		if t.value == letters("amp") && t.run < maxEscaped {
			t.run++
			t.digits = digits{}
			k.add(t, amp)
		}
	default:
		t.value = t.value<<8 | uint32(b)
		t.count++
		for _, n := range names {
			c := uint32(n.char)
			if int(t.count) <= len(n.name) && t.value == letters(n.name[:t.count]) && (c == '&' || p.follows(&t, c, c)) {
				k.add(t, ampName)
				return
			}
		}
	}
}

func letters(s string) (v uint32) {
	for i := range len(s) {
		v = v<<8 | uint32(s[i])
	}
	return v
}

// digit reads another digit of a number of minDigits to maxDigits digits, and reports whether b is a digit and the
// number can become that of a byte or character which may follow.
func (p *patterns) digit(t *thread, b byte, radix uint32, minDigits, maxDigits uint8) bool {
	d := uint32(unhex(b))
	if d >= radix || t.count >= maxDigits {
		return false
	}
	t.value = t.value*radix + d
	t.count++
	if t.value > 0x10ffff {
		return false
	}
	from, to := t.value, t.value
	for n := t.count; ; n++ {
		if n >= minDigits && p.follows(t, from, to) {
			return true
		}
		if n == maxDigits || from > 0x10ffff {
			return false
		}
		from, to = from*radix, to*radix+radix-1
	}
}

// unhex returns the value of a hex digit in either case, and 255 for another byte.
func unhex(b byte) byte {
	switch {
	case '0' <= b && b <= '9':
		return b - '0'
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return b | 0x20 - 'a' + 10
	}
	return 255
}
