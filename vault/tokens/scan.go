package tokens

import "encoding/binary"

// scan finds tokens in text that comes in pieces, in one pass. Where a token may begin, it reads on until that is
// decided, at most some hundred bytes, and of the formats without a bound, no two walks begin in one run of bytes.
type scan struct {
	known *windows
	found func(kind string)
	text  []byte // the last text that was passed on, as context of a token, then the text that was not
	done  int    // the text before it was passed on, or replaced by Mark
	at    int    // from here on a token may begin
	busy  bool   // the walk waits for text, or grows
	walk  walk
	tried int // formats at this place that did not fit
	clean []byte
}

// before is the number of bytes in front of a token that are inspected.
const before = 64

// add takes the next piece of text, and returns the text that can be passed on, which is valid until the next call.
// After the last piece, nothing is held back.
func (s *scan) add(p []byte, last bool) []byte {
	s.clean = s.clean[:0]
	s.trim()
	s.text = append(s.text, p...)
	for s.step(last) {
	}
	if !s.busy {
		hold := 0
		if !last {
			hold = s.known.begins(s.text)
		}
		s.pass(len(s.text) - hold)
	} else if !s.walk.sure {
		s.pass(s.walk.from)
	}
	return s.clean
}

// pass lets the text go up to a position.
func (s *scan) pass(to int) {
	if to > s.done {
		s.clean = append(s.clean, s.text[s.done:to]...)
		s.done = to
	}
}

// trim drops text that is too far back to matter.
func (s *scan) trim() {
	n := min(s.done, s.at) - before - window
	if n <= 0 {
		return
	}
	s.text = s.text[:copy(s.text, s.text[n:])]
	s.done -= n
	s.at -= n
	s.walk.moved(n)
}

// step goes on to the next place where something is decided. It reports whether there is more text to go through.
func (s *scan) step(last bool) bool {
	if s.busy && s.walk.sure {
		return s.grow(last)
	}
	var entries []entry
	if s.busy {
		entries = s.known.at(binary.BigEndian.Uint32(s.text[s.at:]))
	} else {
		s.at, entries = s.known.skip(s.text, s.at)
		s.tried = 0
	}
	if entries == nil {
		return false
	}
	for ; s.tried < len(entries); s.tried++ {
		if !s.busy && !s.begin(&entries[s.tried]) {
			continue
		}
		switch s.walk.follow(s.text, last) {
		case waits:
			s.busy = true
			return false
		case fits:
			if s.accept() {
				return true
			}
		}
		s.busy = false
	}
	s.at++
	return true
}

// begin starts a walk if the text before it allows one.
func (s *scan) begin(e *entry) bool {
	from, begin := s.at+int(e.behind), e.format.begins[e.begin]
	if from < s.done || !e.format.apart.stands(s.behind(from)) {
		return false
	}
	s.walk = walk{format: e.format, begin: begin, beginLen: len(begin), from: from, secret: from, at: from}
	return true
}

// behind returns some of the text before a position.
func (s *scan) behind(from int) []byte { return s.text[max(0, from-before):from] }

// accept reports whether a matching walk is a token, by the format's check, and masks it.
func (s *scan) accept() bool {
	w := &s.walk
	random := max(w.secret, w.from+w.beginLen)
	if !w.format.check(token{s.behind(w.from), s.text[w.from:w.at], s.text[random:w.at]}) {
		return false
	}
	s.found(w.format.kind)
	s.pass(w.secret)
	s.clean = append(s.clean, Mark...)
	w.sure, w.end, w.n = true, w.at, 0
	s.done, s.at, s.busy = w.end, w.end, true
	return true
}

// grow masks the continuation of a token.
func (s *scan) grow(last bool) bool {
	verdict := s.walk.follow(s.text, last)
	s.done, s.at = s.walk.end, s.walk.end
	if verdict == waits {
		return false
	}
	s.busy = false
	return true
}

// wipe clears the text in memory.
func (s *scan) wipe() {
	clear(s.text[:cap(s.text)])
	clear(s.clean[:cap(s.clean)])
	s.text, s.clean, s.done, s.at, s.busy = nil, nil, 0, 0, false
}
