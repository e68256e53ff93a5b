package vault

// maxGap bounds the bytes between two symbols: a line break with an indent, colours.
const maxGap = 40

// between reads bytes that may stand between two symbols: a line break with an indent after it, as bytes or escaped,
// and in text also invisible ones: terminal colours and characters without width. It also enters escapes.
func (p *patterns) between(k *steps, t thread, b byte) {
	if b > '%' && b < 0xc2 && b != '\\' && b != '&' && b != '=' {
		return
	}
	p.beginEscape(k, t, b)
	if !t.inside() || t.run >= maxGap {
		return
	}
	t.run++
	switch {
	case t.state == start && b == '\n':
		k.add(t, afterBreak)
	case t.state == start && b == '\r':
		k.add(t, breakLF)
	case t.state == afterBreak && (b == ' ' || b == '\t'):
		k.add(t, afterBreak)
	case p.encoding != asText:
	case b == 0x1b:
		t.tight = t.state == afterBreak
		k.add(t, escape1)
	case b == 0xe2 || b == 0xc2 || b == 0xef:
		t.tight = t.state == afterBreak
		t.value = uint32(b)
		k.add(t, wide2)
	}
}

// gap continues a gap that between began.
func (p *patterns) gap(k *steps, t thread, b byte) {
	t.run++
	if t.run > maxGap {
		return
	}
	done := start
	if t.tight {
		done = afterBreak
	}
	switch {
	case t.state == breakLF && b == '\n', t.state == breakN && b == 'n':
		k.add(t, afterBreak)
	case t.state == breakSlash && b == '\\':
		k.add(t, breakN)
	case t.state == breakN && b == '\\':
		k.add(t, breakN)
	case t.state == escape1 && b == '[':
		k.add(t, escapeColour)
	case t.state == escapeColour && (isDigit(b) || b == ';'):
		k.add(t, escapeColour)
	case t.state == escapeColour && (b == 'm' || b == 'K'):
		k.add(t, done)
	case t.state == wide2 && t.value == 0xc2:
		if b == 0xad { // a soft hyphen
			k.add(t, done)
		}
	case t.state == wide2 && t.value == 0xef && b == 0xbb, // a byte order mark
		t.state == wide2 && t.value == 0xe2 && (b == 0x80 || b == 0x81):
		t.value = t.value<<8 | uint32(b)
		k.add(t, wide3)
	case t.state == wide3 && unseen(t.value<<8|uint32(b)):
		k.add(t, done)
	}
}

// unseen reports whether a character, in UTF-8, has no width.
func unseen(c uint32) bool {
	switch {
	case 0xe2808b <= c && c <= 0xe2808f, // zero width space, joiners, marks of direction
		0xe280aa <= c && c <= 0xe280ae, // embeddings of direction
		0xe281a0 <= c && c <= 0xe281af, // word joiner, invisible operators
		c == 0xefbbbf:
		return true
	}
	return false
}
