package vault

import "unicode/utf8"

// thread is a state of the matcher's NFA, as in Pike's regular expression machine
// (https://swtch.com/~rsc/regexp/regexp2.html): a spelling of some words that the text may be in the middle of.
type thread struct {
	from int64 // where in the text it began
	point
	digits       // of the number that is being read
	group  uint8 // which of the matcher's patterns
	state  state
	run    uint8 // bytes between two symbols so far, or how often an escape was escaped
	tail   tail
	dumped bool // a column of text stood between the numbers, as in a hex dump
}

// digits is a partly read number.
type digits struct {
	value uint32
	count uint8
	tight bool // nothing stands between it and the number before: all digits must be there
}

// tail is the progress of a thread behind the whole symbols of word number lo.
type tail uint8

const (
	inWord    tail = iota
	inPartial      // the character that the word shares with what follows it
	inPadding      // = signs, depth of them
)

// state is the position of a thread within the spelling of a symbol.
type state uint8

const (
	start        state = iota
	afterBreak         // start, but there was a line break just now, and a second may not follow
	breakLF            // \r was read: \n must follow
	breakSlash         // \r was read, written out: \n must follow, written out
	breakN             // ... and its backslash was read
	slash              // backslashes were read, run of them
	pair               // % or = or \x was read: two hex digits follow; run says how often % was written %25
	unit               // \u was read: four hex digits follow
	long               // \U was read: eight
	brace              // \u{ was read: hex digits and } follow
	octal              // a backslash was read, and octal digits
	lowSlash           // the second half of a surrogate pair follows: \u and four digits
	lowU               //
	low                // value has the first half on top
	amp                // & was read
	ampName            // ... and letters, which value holds
	ampNumber          // &# was read
	ampDecimal         //
	ampHex             //
	escape1            // the ESC of a colour was read
	escapeColour       // ... and its [
	wide2              // the first byte of a character that is not seen was read; it is in value
	wide3              // ... and the second
	column             // in the column of text beside numbers
	lineStart          // at the beginning of a line of numbers
	offset             // in the column of offsets before numbers
	fillSlash          // a backslash between numbers was read
	restOfLine         // the value was complete; the column of text beside it still shows it
)

// steps are the threads after a byte.
type steps struct {
	threads []thread
	match   bool // one of them is at the end of a word
}

func (k *steps) add(t thread, to state) {
	t.state = to
	k.threads = append(k.threads, t)
}

// inside reports whether a symbol was read already.
func (t *thread) inside() bool { return t.depth > 0 || t.tail != inWord }

// step appends the threads that b leads to from t. No symbol takes more than maxGap bytes and a few, so the text that
// is held back is bounded.
func (p *patterns) step(k *steps, t thread, b byte) {
	switch t.state {
	case start, afterBreak:
		if p.encoding.separated() || p.radix != 0 {
			p.stepList(k, t, b)
			return
		}
		p.accept(k, t, b)
		if b == '+' && p.encoding == asText {
			p.accept(k, t, ' ')
		}
		p.between(k, t, b)
	case column, lineStart, offset, fillSlash, restOfLine:
		p.dump(k, t, b)
	case breakLF, breakSlash, breakN, escape1, escapeColour, wide2, wide3:
		p.gap(k, t, b)
	default:
		p.escape(k, t, b)
	}
}

// accept reads the byte c at t, however it was spelled.
func (p *patterns) accept(k *steps, t thread, c byte) {
	s := p.symbols[c]
	if t.tail != inWord {
		p.acceptTail(k, t, c, s)
		return
	}
	if s < 0 {
		return
	}
	if next, end := p.child(t.point, byte(s)); end >= 0 || next.lo < next.hi {
		p.arrive(k, t, next, end)
	}
}

// arrive continues behind a symbol.
func (p *patterns) arrive(k *steps, t thread, next point, end int32) {
	t.run, t.digits = 0, digits{tight: p.radix != 0}
	if end >= 0 {
		k.match = true
		u := t
		u.point = point{lo: end, hi: end}
		if p.ends != nil && p.ends[end].known > 0 {
			u.tail = inPartial
			k.add(u, start)
		} else if t.dumped {
			k.add(u, restOfLine)
		}
	}
	if next.lo < next.hi {
		t.point = next
		k.add(t, start)
	}
}

// acceptTail reads c, which stands for the symbol s, behind the whole symbols of a word.
func (p *patterns) acceptTail(k *steps, t thread, c byte, s int16) {
	e := &p.ends[t.lo]
	switch {
	case t.tail == inPartial && s >= 0 && (byte(s)^e.bits)>>(e.size-e.known) == 0:
		t.tail, t.depth = inPadding, int32(e.pads)
	case t.tail == inPadding && c == '=':
		t.depth--
	default:
		return
	}
	k.match = true
	if t.depth > 0 {
		t.run, t.digits = 0, digits{}
		k.add(t, start)
	}
}

// spell reads the character r, as accept does.
func (p *patterns) spell(k *steps, t thread, r rune) {
	if r < 0x80 {
		p.accept(k, t, byte(r))
		return
	}
	if 0xdc80 <= r && r <= 0xdcff { // what Python makes of a byte that is not UTF-8
		p.accept(k, t, byte(r))
		return
	}
	if t.tail != inWord || !p.wide {
		return
	}
	bytes := utf8.AppendRune(make([]byte, 0, utf8.UTFMax), r)
	for i, c := range bytes {
		next, end := p.child(t.point, byte(p.symbols[c]))
		if i == len(bytes)-1 {
			p.arrive(k, t, next, end)
			return
		}
		if next.lo >= next.hi {
			return
		}
		t.point = next
	}
}
