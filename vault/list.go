package vault

import "strings"

const (
	maxFill   = 24 // bytes between two numbers: a comma, a line break, and an indent
	maxColumn = 66 // bytes of the column of text in a hex dump
	maxOffset = 16 // digits of the column of offsets
	maxRest   = 100
)

// stepList reads separated characters, and bytes as numbers with separators.
func (p *patterns) stepList(k *steps, t thread, b byte) {
	if p.encoding.separated() {
		if p.encoding == asGrouped || t.run > 0 || !t.inside() || b&0xc0 == 0x80 {
			p.accept(k, t, b)
		}
	} else {
		p.number(k, t, b)
	}
	if t.inside() && t.count == 0 {
		p.fill(k, t, b)
	}
}

// number reads one more digit.
func (p *patterns) number(k *steps, t thread, b byte) {
	d := uint32(unhex(b))
	if d >= p.radix {
		switch {
		case t.count == 1 && t.value == 0 && strings.IndexByte("xXoObB", b) >= 0: // 0x was read
			t.digits = digits{}
			k.add(t, start)
		case t.count > 0 && (p.encoding == asHex || p.encoding == asBinary): // a line may end within a byte
			p.gapInNumber(k, t, b)
		}
		return
	}
	t.state = start
	t.value = t.value*p.radix + d
	t.count++
	n := uint32(t.count)
	if t.value > 0xff || n > p.width {
		return
	}
	if n == 1 && d == 0 && !t.inside() && p.radix != 16 {
		return // the word may begin behind the zero as well
	}
	if n == p.width || !t.tight {
		p.accept(k, t, byte(t.value))
	}
	if n == p.width {
		return
	}
	from, to := t.value, t.value
	for ; n < p.width; n++ {
		from, to = from*p.radix, to*p.radix+p.radix-1
		if p.has(t.point, from, to) {
			k.add(t, start)
			return
		}
	}
	if t.count == 1 && t.value == 0 && t.inside() {
		k.add(t, start) // 0x may come
	}
}

// pauses reports whether text that ends at t is more likely ordinary text than the first item of a list. It is not
// held back then, which may show the first character of a value.
func (p *patterns) pauses(t *thread) bool {
	return (p.radix != 0 || p.encoding.separated()) && t.depth == 1 && t.count == 0 && t.run > 0
}

// gapInNumber reads a line break within a number.
func (p *patterns) gapInNumber(k *steps, t thread, b byte) {
	switch {
	case t.state == start && b == '\n', t.state == start && b == '\\':
		t.run++
		k.add(t, map[byte]state{'\n': afterBreak, '\\': fillSlash}[b])
	case t.state == start && b == '\r':
		k.add(t, breakLF)
	}
}

// separators are the bytes that may stand between numbers, and between the characters of a value.
const separators = " \t\r\n,.:;-_/+|'\"()[]\\"

// separates reports whether b may stand between numbers.
func separates(b byte) bool {
	return strings.IndexByte(separators, b) >= 0
}

// fill reads separators between two numbers or characters.
func (p *patterns) fill(k *steps, t thread, b byte) {
	if t.run >= maxFill {
		return
	}
	blanks := t.run >= 2
	t.run++
	t.tight = false
	switch {
	case b == '\n':
		k.add(t, lineStart)
	case b == '\\':
		k.add(t, fillSlash)
	case separates(b):
		k.add(t, start)
	}
	if blanks && p.radix != 0 && ' ' < b && b < 0x7f {
		t.run = 1
		k.add(t, column)
	}
}

// dump reads the other columns of a hex dump: the text at the end of each line, and the offset at its beginning.
func (p *patterns) dump(k *steps, t thread, b byte) {
	switch t.state {
	case fillSlash:
		if t.count > 0 { // within a number, only a line break is written so
			if b == 'n' {
				k.add(t, afterBreak)
			} else if b == 'r' || b == '\\' {
				k.add(t, fillSlash)
			}
			return
		}
		if b == 'n' || b == 'r' || b == 't' || b == 'x' || b == 'u' {
			t.run++
			k.add(t, start)
		}
		t.state = start
		p.stepList(k, t, b)
	case column:
		if b == '\n' {
			t.run, t.dumped = 1, true
			k.add(t, lineStart)
		} else if b != 0 && t.run < maxColumn {
			t.run++
			k.add(t, column)
		}
	case lineStart:
		if unhex(b) < 16 {
			u := t
			u.run = 1
			k.add(u, offset)
		}
		if b != ' ' && b != '\t' {
			t.state = start
		}
		if t.state == lineStart && t.run < maxFill {
			t.run++
			k.add(t, lineStart)
		} else {
			p.stepList(k, t, b)
		}
	case offset:
		if unhex(b) < 16 && t.run < maxOffset {
			t.run++
			k.add(t, offset)
		} else if t.run >= 4 && (b == ':' || b == ' ') {
			t.run = 1
			k.add(t, start)
		}
	case restOfLine:
		if b != '\n' && b != '\r' && t.run < maxRest {
			k.match = true
			t.run++
			k.add(t, restOfLine)
		}
	}
}
