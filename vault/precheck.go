package vault

import (
	"encoding/binary"
	"strings"
)

// special are the bytes that may begin something else than a symbol.
var special = setOf("\\%&=+\n\r \t\x1b\xc2\xe2\xef")

// precheck reports cheaply whether no thread of a group can survive the window and the text after it. If the window
// has symbols only, it also returns the node that they lead to: the only thread that replay would find.
func (s *scan) precheck(group int, rest []byte) (after point, dead bool) {
	p := &s.patterns[group]
	if p.encoding.separated() || p.encoding == asBinary {
		return after, false
	}
	at := point{hi: int32(len(p.words))}
	var buf [window + ahead]byte
	binary.BigEndian.PutUint32(buf[:], uint32(s.last))
	text := buf[:window+copy(buf[window:], rest)]
	if p.radix != 0 {
		return after, p.noNumber(at, text)
	}
	for i, b := range text {
		if i == window {
			after = at
		}
		if special.has(b) {
			return after, p.deadEnd(at, text[i:])
		}
		symbol := p.symbols[b]
		if symbol < 0 {
			return after, true
		}
		next, end := p.child(at, byte(symbol))
		if end >= 0 {
			return after, false
		}
		if next.lo >= next.hi {
			return after, true
		}
		at = next
	}
	if len(rest) == 0 {
		after = at
	}
	return after, false
}

// noNumber reports whether text begins with numbers, without separators, that can't come next.
func (p *patterns) noNumber(at point, text []byte) bool {
	for {
		value, n := uint32(0), uint32(0)
		for n < p.width && int(n) < len(text) && uint32(unhex(text[n])) < p.radix {
			value = value*p.radix + uint32(unhex(text[n]))
			n++
		}
		if n < p.width && (p.encoding == asHex || p.encoding == asBinary || at.depth > 0) {
			return false // folded, or with 0x, or with something between
		}
		if n < p.width && n > 0 && int(n) < len(text) {
			return p.noList(at, value, text[n:])
		}
		if value > 0xff || n < p.width || len(text) < window {
			return !p.has(at, value, value)
		}
		next, end := p.child(at, byte(value))
		if end >= 0 {
			return false
		}
		if next.lo >= next.hi {
			return true
		}
		at, text = next, text[n:]
	}
}

// noList reports whether a number and text that begins with a separator can't be the first of a list.
func (p *patterns) noList(at point, first uint32, text []byte) bool {
	next, _ := p.child(at, byte(first))
	if first > 0xff || next.lo >= next.hi {
		return true
	}
	for len(text) > 0 && text[0] != '\\' && text[0] != '\n' && separates(text[0]) {
		text = text[1:]
	}
	value := uint32(0)
	for n, b := range text {
		d := uint32(unhex(b))
		if d >= p.radix || n == int(p.width) {
			return n > 0
		}
		value = value*p.radix + d
		if value == 0 || p.has(next, value, value) {
			return false
		}
	}
	return false
}

// leads reports whether b, unescaped, stands for a symbol that may come next.
func (p *patterns) leads(at point, b byte) bool {
	s := p.symbols[b]
	return s >= 0 && p.has(at, uint32(s), uint32(s))
}

// deadEnd reports whether text, which begins with a special byte, leads nowhere from a node. false is uncertain.
func (p *patterns) deadEnd(at point, text []byte) bool {
	b := text[0]
	if len(text) < 6 || p.leads(at, b) || b == '+' && p.leads(at, ' ') {
		return false
	}
	inside := at.depth > 0
	after := func(text []byte) bool {
		c := text[0]
		if c == '\\' || c == '%' || c == '&' || c == '=' {
			return p.deadEnd(at, text)
		}
		return !special.has(c) && !p.leads(at, c)
	}
	switch {
	case b == '\n' && inside:
		return after(text[1:])
	case b == '\r' && inside:
		return text[1] != '\n'
	case b == '=' && inside && (text[1] == '\n' || text[1] == '\r'):
		return false
	case b == '\\' && inside && text[1] == 'n':
		return after(text[2:]) && !p.leads(at, '\n')
	case b == '\\' || b == '%' || b == '&' || b == '=':
		return p.noEscape(at, text)
	}
	return !inside || p.encoding != asText
}

// noEscape reports whether text, which begins like an escape, can't be the escape of a symbol that may come next.
// false is uncertain.
func (p *patterns) noEscape(at point, text []byte) bool {
	for text[0] == '\\' && text[1] == '\\' {
		if text = text[1:]; len(text) < 6 {
			return false
		}
	}
	digits, c := text[1:3], text[1]
	switch {
	case text[0] == '\\' && c == 'u':
		digits = text[2:6]
	case text[0] == '\\' && c == 'x':
		digits = text[2:4]
	case text[0] == '\\' && isWord(c) && c != '_':
		return !strings.ContainsRune("U01234567nrtbfvae", rune(c))
	case text[0] == '\\':
		return c != '\n' && !p.leads(at, c)
	case text[0] == '&':
		return !strings.ContainsRune("#alqg", rune(c))
	case text[0] == '%' && c == '2' && text[2] == '5':
		return false
	}
	code := uint32(0)
	for _, b := range digits {
		d := unhex(b)
		if d > 15 {
			return b != '{' && b != 'u'
		}
		code = code<<4 | uint32(d)
	}
	if p.wide && code >= 0x80 {
		return false
	}
	if !p.follows(&thread{point: at}, code, code) {
		return true
	}
	next, end := p.child(at, byte(p.symbols[byte(code)]))
	text = text[cap(text)-cap(digits)+len(digits):]
	if end >= 0 || code >= 0x80 || len(text) == 0 {
		return false
	}
	if special.has(text[0]) {
		return p.deadEnd(next, text)
	}
	return !p.leads(next, text[0])
}
