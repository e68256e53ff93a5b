package vault

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// scan looks for the patterns of a matcher in a text that comes in pieces. It works through the
// text once. Its cost per byte is that of a look into the filter, plus a step for each spelling that
// the text may be in the middle of; its memory is these.
type scan struct {
	*matcher
	now    int64    // bytes of text seen
	last   uint32   // the last of them, window bytes
	live   []thread // spellings that the text may be in the middle of
	spare  []thread
	found  []span // what was found: in order, apart, and grown together where it overlaps
	splits bool   // threads may be there twice
}

// thread is a spelling of a pattern that began at the position from.
type thread struct {
	from    int64
	pattern int32
	cursor
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
		s.step(text[i])
	}
}

// step takes one byte.
func (s *scan) step(b byte) {
	s.now++
	s.last = s.last<<8 | uint32(b)
	if len(s.live) > 0 {
		s.follow(b)
	}
	if s.now >= window && s.prefixes.may(s.last) {
		s.begin()
	}
}

// follow takes all threads one byte further.
func (s *scan) follow(b byte) {
	s.spare = s.spare[:0]
	for _, t := range s.live {
		s.spare = s.advance(s.spare, t, b)
	}
	s.live, s.spare = s.spare, s.live
	if s.splits {
		s.live = unique(s.live)
		s.splits = false
	}
}

// begin starts the threads whose first bytes are the last ones seen.
func (s *scan) begin() {
	for _, e := range s.prefixes.first.with(s.last) {
		s.live = append(s.live, thread{s.now - window, e.pattern, e.cursor})
	}
}

// advance appends what becomes of t after b, and notes if that is a match.
func (s *scan) advance(to []thread, t thread, b byte) []thread {
	if t.pattern == unicode {
		return s.advanceUnicode(to, t)
	}
	p := &s.patterns[t.pattern]
	next, other := p.step(t.cursor, b)
	s.splits = s.splits || other.state != dead
	if next.state != dead {
		to = s.arrive(to, thread{t.from, t.pattern, next})
	}
	if other.state != dead {
		to = s.arrive(to, thread{t.from, t.pattern, other})
	}
	return to
}

// arrive notes that t is a match, if it is, and appends it, unless it is at its end.
func (s *scan) arrive(to []thread, t thread) []thread {
	p := &s.patterns[t.pattern]
	if t.state == start && t.symbols >= p.need {
		s.match(span{t.from, s.now})
	}
	if t.symbols < p.size {
		to = append(to, t)
	}
	return to
}

// advanceUnicode waits for the four digits of \uXXXX, and then appends the threads that begin so.
func (s *scan) advanceUnicode(to []thread, t thread) []thread {
	if n := int(s.now-t.from) - len(`\u`); n < window {
		if s.prefixes.digits.begins(s.last, n) {
			to = append(to, t)
		}
		return to
	}
	for _, e := range s.prefixes.digits.with(s.last) {
		to = s.arrive(to, thread{t.from, e.pattern, e.cursor})
	}
	return to
}

// unique leaves, of the threads at the same place, the one that began first. Without it, a value
// full of backslashes would double the threads again and again.
func unique(threads []thread) []thread {
	slices.SortFunc(threads, func(a, b thread) int {
		return cmp.Or(cmp.Compare(a.pattern, b.pattern), cmp.Compare(a.symbols, b.symbols),
			cmp.Compare(a.state, b.state), cmp.Compare(a.from, b.from))
	})
	return slices.CompactFunc(threads, func(a, b thread) bool {
		return a.pattern == b.pattern && a.cursor == b.cursor
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
	first := s.now
	for _, t := range s.live {
		first = min(first, t.from)
	}
	for n := int64(1); n < window && n <= s.now; n++ {
		if s.prefixes.first.begins(s.last, int(n)) {
			first = min(first, s.now-n)
		}
	}
	return first
}
