package vault

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// scan looks for the words of a matcher in a text that comes in pieces. It works through the text
// once. Its cost per byte is that of a look into the filter, plus a step for each spelling that the
// text may be in the middle of; its memory is these.
type scan struct {
	*matcher
	now   int64    // bytes of text seen
	last  uint32   // the last of them, window bytes
	live  []thread // spellings that the text may be in the middle of
	spare steps
	trial steps
	floor int64  // what began earlier was let go in part, and counts from here on
	found []span // what was found: in order, apart, and grown together where it overlaps
}

// span is the text from one position up to, not including, the other.
type span struct{ from, to int64 }

// feed takes the next piece of the text.
func (s *scan) feed(text []byte) {
	for i := 0; i < len(text); i++ {
		if len(s.live) == 0 && i >= window-1 {
			to := s.prefixes.skip(text, i-(window-1)) + window - 1
			if to > i {
				s.now += int64(to - i)
				s.last = binary.BigEndian.Uint32(text[to-window:])
				i = to
			}
			if i == len(text) {
				return
			}
		}
		if n := len(s.live); 0 < n && n <= maxWalk {
			i += s.walk(text[i:])
			if i == len(text) {
				return
			}
		}
		s.step(text[i], text[i+1:])
	}
}

// maxWalk is how many threads are led on together by walk.
const maxWalk = 4

// walk takes the bytes that do nothing but lead all threads on, each in the only word it is in, and
// returns how many they are. It does what step does, in less time.
func (s *scan) walk(text []byte) int {
	var rest [maxWalk][]byte
	var of [maxWalk]*[256]int16
	most := len(text)
	for i := range s.live {
		t := &s.live[i]
		p := &s.patterns[t.group]
		if t.state != start || t.tail != inWord || t.hi-t.lo != 1 || p.radix != 0 || p.way == asSpaced {
			return 0
		}
		rest[i], of[i] = p.words[t.lo][t.depth:], p.symbols
		most = min(most, len(rest[i])-1)
	}
	n := 0
walk:
	for ; n < most; n++ {
		b := text[n]
		last := s.last<<8 | uint32(b)
		if special.has(b) || s.prefixes.may(uint32(simple(uint64(last)))) {
			break
		}
		for i := range s.live {
			if of[i][b] != int16(rest[i][n]) {
				break walk
			}
		}
		s.last = last
	}
	if n == 0 {
		return 0
	}
	s.now += int64(n)
	for i := range s.live {
		t := &s.live[i]
		t.depth += int32(n)
		t.run, t.digits = 0, digits{}
	}
	return n
}

// step takes one byte; rest is what is known to follow.
func (s *scan) step(b byte, rest []byte) {
	s.now++
	s.last = s.last<<8 | uint32(b)
	if len(s.live) > 0 {
		s.follow(b)
	}
	if key := uint32(simple(uint64(s.last))); s.now >= window && s.prefixes.may(key) {
		s.begin(key, rest)
	}
}

// follow takes all threads one byte further.
func (s *scan) follow(b byte) {
	s.spare.threads = s.spare.threads[:0]
	for _, t := range s.live {
		s.patterns[t.group].step(&s.spare, t, b)
		if s.spare.match {
			s.match(span{t.from, s.now})
			s.spare.match = false
		}
	}
	more := len(s.spare.threads) > len(s.live)
	s.live, s.spare.threads = s.spare.threads, s.live
	if more {
		s.live = unique(s.live)
	}
}

// ahead is how many bytes of the text behind a prefix decide whether it is worth while to begin.
const ahead = 12

// maxTrial is how many threads are tried ahead: if there are more, it is worth while.
const maxTrial = 16

// begin starts the threads whose first bytes are the last ones seen.
func (s *scan) begin(key uint32, rest []byte) {
	groups := s.prefixes.groups[s.prefixes.find(key)]
	for ; groups != 0; groups &= groups - 1 {
		group := bits.TrailingZeros16(groups)
		if s.hopeless(group, rest) {
			continue
		}
		began := s.replay(group, window)
		if len(began) == 0 {
			continue
		}
		n := len(s.live)
		s.live = append(s.live, began...)
		if !s.survive(began, rest) {
			s.live = s.live[:n]
		}
	}
}

// special are the bytes that are, or may be, something else than a symbol.
var special = setOf("\\%&=+\n\r \t\x1b\xc2\xe2\xef")

// hopeless reports at little cost whether no thread of a group will survive the window and the rest,
// as far as that is simple to see.
func (s *scan) hopeless(group int, rest []byte) bool {
	p := &s.patterns[group]
	if p.way == asSpaced || p.way == asBinary {
		return false
	}
	at := point{hi: int32(len(p.words))}
	var buf [window + ahead]byte
	binary.BigEndian.PutUint32(buf[:], s.last)
	text := buf[:window+copy(buf[window:], rest)]
	if p.radix != 0 {
		return p.noNumber(at, text)
	}
	for i, b := range text {
		if special.has(b) {
			return p.deadEnd(at, text[i:])
		}
		symbol := p.symbols[b]
		if symbol < 0 {
			return true
		}
		next, end := p.child(at, byte(symbol))
		if end >= 0 {
			return false
		}
		if next.lo >= next.hi {
			return true
		}
		at = next
	}
	return false
}

// noNumber reports whether text begins with another number than those that come next.
func (p *patterns) noNumber(at point, text []byte) bool {
	value, n := uint32(0), uint32(0)
	for n < p.width && uint32(unhex(text[n])) < p.radix {
		value = value*p.radix + uint32(unhex(text[n]))
		n++
	}
	if p.way == asHex && n < p.width {
		return false // folded, or with 0x
	}
	return !p.has(at, value, value)
}

// leads reports whether b, as it is, stands for a symbol that comes next.
func (p *patterns) leads(at point, b byte) bool {
	s := p.symbols[b]
	return s >= 0 && p.has(at, uint32(s), uint32(s))
}

// deadEnd reports whether text, which begins with one of the special bytes, leads nowhere from a
// point, as far as that is simple to see.
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
	return !inside || p.way != asText
}

// noEscape reports whether text, which begins with what escapes begin with, is none of a symbol that
// comes next, as far as that is simple to see.
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

// replay returns the threads of a group that the last n bytes lead to.
func (s *scan) replay(group, n int) []thread {
	s.trial.threads = append(s.trial.threads[:0], s.root(group, max(s.now-int64(n), s.floor)))
	for i := n - 1; i >= 0; i-- {
		s.tryStep(byte(s.last >> (8 * i)))
		if len(s.trial.threads) == 0 {
			break
		}
	}
	return s.trial.threads
}

// tryStep leads the threads on trial one byte further.
func (s *scan) tryStep(b byte) {
	old := len(s.trial.threads)
	for i := range old {
		t := s.trial.threads[i]
		s.patterns[t.group].step(&s.trial, t, b)
	}
	s.trial.threads = append(s.trial.threads[:0], s.trial.threads[old:]...)
}

// survive reports whether threads get through the next bytes, as far as they are known.
func (s *scan) survive(threads []thread, rest []byte) bool {
	for _, b := range rest[:min(ahead, len(rest))] {
		s.tryStep(b)
		if s.trial.match || len(s.trial.threads) > maxTrial {
			break
		}
		if len(s.trial.threads) == 0 {
			return false
		}
	}
	s.trial.match = false
	return true
}

// unique leaves, of the threads at the same place, the one that began first. Without it, a value
// full of backslashes would double the threads again and again.
func unique(threads []thread) []thread {
	slices.SortFunc(threads, func(a, b thread) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.lo, b.lo), cmp.Compare(a.hi, b.hi),
			cmp.Compare(a.depth, b.depth), cmp.Compare(a.state, b.state), cmp.Compare(a.tail, b.tail),
			cmp.Compare(a.value, b.value), cmp.Compare(a.count, b.count), cmp.Compare(a.run, b.run), cmp.Compare(a.from, b.from))
	})
	return slices.CompactFunc(threads, func(a, b thread) bool {
		a.from = b.from
		return a == b
	})
}

// match notes a span that ends now.
func (s *scan) match(m span) {
	for n := len(s.found); n > 0 && s.found[n-1].to > m.from; n-- {
		m.from = min(m.from, s.found[n-1].from)
		s.found = s.found[:n-1]
	}
	s.found = append(s.found, m)
}

// forget drops the first n spans.
func (s *scan) forget(n int) {
	s.found = append(s.found[:0], s.found[n:]...)
}

// pending returns the first position from which on the text may turn out to be a secret: now if
// there is none.
func (s *scan) pending() int64 {
	first, paused := s.now, false
	for _, t := range s.live {
		if s.patterns[t.group].pauses(&t) {
			paused = true
		} else {
			first = min(first, t.from)
		}
	}
	for n := min(window-1, s.now); n > 0; n-- {
		if s.now-n >= first {
			break
		}
		for group := range s.patterns {
			for _, t := range s.replay(group, int(n)) {
				if s.patterns[group].pauses(&t) {
					paused = true
				} else {
					first = min(first, t.from)
				}
			}
		}
	}
	if paused {
		s.floor = first
		for i := range s.live {
			s.live[i].from = max(s.live[i].from, first)
		}
	}
	return first
}
