package vault

import (
	"cmp"
	"math/bits"
	"slices"
)

// scan searches for the words of a matcher in text that comes in pieces, in one pass. Its cost per byte is that of a
// lookup in the filter, plus a step for each live thread; its memory is that of the threads.
type scan struct {
	*matcher
	now       int64    // bytes of text seen
	last      uint64   // the last eight of them
	live      []thread // spellings that the text may be in the middle of
	spare     steps
	lookahead steps
	floor     int64  // matches that began earlier were released in part, and count from here on
	found     []span // matches in order; overlapping matches are merged
}

// span is a range of text, without the byte at to.
type span struct{ from, to int64 }

// feed scans the next piece of the text.
func (s *scan) feed(text []byte) {
	if len(text) > 0 {
		s.matcher.prepare()
	}
	breaks := breaks{text: text, newline: -1, slash: -1}
	for i := 0; i < len(text); i++ {
		if len(s.live) == 0 && i >= window-1 {
			to := s.prefixes.skip(text, i-(window-1), breaks.from(i)-(window-1)) + window - 1
			s.pass(text[i:to])
			i = to
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

// pass counts bytes at which no word can begin.
func (s *scan) pass(text []byte) {
	s.now += int64(len(text))
	for _, b := range text[max(0, len(text)-8):] {
		s.last = s.last<<8 | uint64(b)
	}
}

// maxWalk bounds the threads that walk advances together.
const maxWalk = 4

// walk advances all threads over the bytes that are plain symbols, each thread in its only word, and returns the
// number of bytes. It does the same as step, in less time.
func (s *scan) walk(text []byte) int {
	var rest [maxWalk][]byte
	var of [maxWalk]*[256]int16
	limit := len(text)
	for i := range s.live {
		t := &s.live[i]
		p := &s.patterns[t.group]
		if t.state != start || t.tail != inWord || t.hi-t.lo != 1 || p.radix != 0 || p.encoding.separated() {
			return 0
		}
		rest[i], of[i] = p.words[t.lo][t.depth:], p.symbols
		limit = min(limit, len(rest[i])-1)
	}
	n := 0
walk:
	for ; n < limit; n++ {
		b := text[n]
		last := s.last<<8 | uint64(b)
		if special.has(b) {
			break
		}
		if key := uint32(simple(last)); s.prefixes.begins(key, text[n+1:]) != 0 {
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

// step reads a byte; rest is the known text after it.
func (s *scan) step(b byte, rest []byte) {
	s.now++
	s.last = s.last<<8 | uint64(b)
	if len(s.live) > 0 {
		s.follow(b)
	}
	if s.now >= window {
		s.begin(s.prefixes.begins(uint32(simple(s.last)), rest), window, rest)
	}
	if b == '\n' || b == '\\' {
		s.fold(rest)
	}
}

// follow advances all threads by a byte.
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

// ahead is the number of bytes behind a prefix that are tried before its threads are kept.
const ahead = 12

// maxLookahead bounds the threads that are tried ahead: more are kept untried.
const maxLookahead = 16

// begin starts the threads of some groups whose first bytes are the last n bytes read.
func (s *scan) begin(groups uint16, n int, rest []byte) {
	for ; groups != 0; groups &= groups - 1 {
		group := bits.TrailingZeros16(groups)
		old := len(s.live)
		if n == window {
			at, dead := s.precheck(group, rest)
			if dead {
				continue
			}
			if at.depth > 0 {
				t := s.root(group, max(s.now-window, s.floor))
				t.point = at
				s.enter(old, t)
				continue
			}
		}
		began := s.replay(group, n)
		if len(began) == 0 {
			continue
		}
		s.enter(old, began...)
		if !s.survive(rest) {
			s.live = s.live[:old]
		}
	}
}

// enter adds the threads that are not among the old ones.
func (s *scan) enter(old int, threads ...thread) {
	for _, t := range threads {
		if !slices.Contains(s.live[:old], t) {
			s.live = append(s.live, t)
		}
	}
}

// replay returns the threads of a group after the last n bytes.
func (s *scan) replay(group, n int) []thread {
	s.lookahead.threads = append(s.lookahead.threads[:0], s.root(group, max(s.now-int64(n), s.floor)))
	for i := n - 1; i >= 0; i-- {
		s.tryStep(byte(s.last >> (8 * i)))
		if len(s.lookahead.threads) == 0 {
			break
		}
	}
	return s.lookahead.threads
}

// tryStep advances the lookahead threads by a byte.
func (s *scan) tryStep(b byte) {
	old := len(s.lookahead.threads)
	for i := range old {
		t := s.lookahead.threads[i]
		s.patterns[t.group].step(&s.lookahead, t, b)
	}
	s.lookahead.threads = append(s.lookahead.threads[:0], s.lookahead.threads[old:]...)
}

// survive reports whether threads remain after the next bytes, as far as these are known.
func (s *scan) survive(rest []byte) bool {
	for _, b := range rest[:min(ahead, len(rest))] {
		s.tryStep(b)
		if s.lookahead.match || len(s.lookahead.threads) > maxLookahead {
			break
		}
		if len(s.lookahead.threads) == 0 {
			return false
		}
	}
	s.lookahead.match = false
	return true
}

// unique removes duplicate threads, and keeps the thread that began first. Otherwise a value full of backslashes would
// double the threads again and again.
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

// match records a match that ends now.
func (s *scan) match(m span) {
	for n := len(s.found); n > 0 && s.found[n-1].to > m.from; n-- {
		m.from = min(m.from, s.found[n-1].from)
		s.found = s.found[:n-1]
	}
	s.found = append(s.found, m)
}

// pauses reports whether the bytes that t has read are released although a word may begin with them: the first number
// of a list, or one letter at the end of a line, which nearly every line has. If a word does begin there, its rest is
// found.
func (s *scan) pauses(t *thread) bool {
	p := &s.patterns[t.group]
	return p.pauses(t) || p.radix == 0 && t.depth == 1 && byte(s.last) == '\n'
}

// pending returns the first position at which a secret may have begun: now if there is none.
func (s *scan) pending() int64 {
	first, paused := s.now, false
	for _, t := range s.live {
		if s.pauses(&t) {
			paused = true
		} else {
			first = min(first, t.from)
		}
	}
	cut := int64(window - 1)
	if b := byte(s.last); b == '\r' || b == '=' {
		cut = maxCut
	}
	for n := min(cut, s.now); n > 0; n-- {
		if s.now-n >= first {
			break
		}
		for group := range s.patterns {
			for _, t := range s.replay(group, int(n)) {
				if s.pauses(&t) {
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
