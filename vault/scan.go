package vault

import "encoding/binary"

// scan searches text that comes in pieces for the words of a matcher, in one pass, in three views of it. One view is
// its bytes. Two have the text's escapes resolved: one has all visible characters but line breaks with the indent after
// them. The other has letters and digits only, without case, so that folding, separators, quotes and escapes of an
// encoding don't matter.
type scan struct {
	*matcher
	scanned     int64  // bytes of text scanned
	rest        []byte // the last of them, if their meaning depends on the next bytes
	all         view
	letters     view
	raw         view   // all bytes: finds a raw value, whatever escapes are in it and beside it
	readUntil   int64  // every character before it is read: a value may have started within the last escape
	escapes     []span // skipped escapes
	listClosed  bool   // the last mark behind the last letter ends a list
	inLine      bool   // this line has a character other than blanks
	backslashes int64  // 1 + the start of the backslashes just before this position; 0: there are none
	growth      uint8  // what may extend the last match: 1 + a number of base64 characters, and padding
	floor       int64  // matches that started earlier were released in part, and count from here on
	found       []span // matches in order; overlapping matches are merged
}

// span is a range of text, excluding the byte at to.
type span struct{ from, to int64 }

// view is the state of a scan in one view of the text.
type view struct {
	*dictionary
	last    uint64   // the last eight symbols
	count   uint     // symbols so far without a gap between them
	starts  [8]int64 // positions of the last symbols in the text: symbol number n at n&7
	end     int64    // of the last symbol
	live    []candidate
	history []byte // without a dictionary, all symbols
}

// candidate is a partial match: a word, or words with the same start.
type candidate struct {
	trieNode
	from, last int64 // positions of the first and the last symbol
}

const (
	maxGap     = 120 // bytes between two symbols of a word
	maxSlashes = 64  // backslashes before a character: an escape that was escaped six times
)

// feed scans the next piece of the text.
func (s *scan) feed(piece []byte, last bool) {
	s.matcher.prepare()
	s.all.dictionary, s.letters.dictionary, s.raw.dictionary = s.matcher.all, s.matcher.letters, s.matcher.raw
	e := escaped{piece, last}
	base := s.scanned
	if len(s.rest) > 0 {
		e.text, base = append(s.rest, piece...), base-int64(len(s.rest))
	}
	s.scanned += int64(len(piece))
	i := 0
	for i < len(e.text) {
		if s.hasNoContext(base + int64(i)) {
			i = s.skip(e, i, base)
		}
		n := s.readChar(e, i, base+int64(i))
		if n == 0 {
			break
		}
		for j := i; j < i+n; j++ {
			s.advanceView(&s.raw, e.text[j], base+int64(j), base+int64(j+1))
		}
		if byteClasses[e.text[i]].special {
			s.readUntil = max(s.readUntil, base+int64(i+n)+window)
		}
		i += n
	}
	s.rest = append(s.rest[:0], e.text[i:]...)
}

// hasNoContext reports whether no text before a position affects what follows.
func (s *scan) hasNoContext(at int64) bool {
	return len(s.all.live)+len(s.letters.live)+len(s.raw.live) == 0 && s.growth == 0 && s.backslashes == 0 && at >= s.readUntil
}

// readChar reads the character at index i, which is at from in the whole text, and returns its length in bytes, or 0 if
// more text is needed.
func (s *scan) readChar(e escaped, i int, from int64) int {
	if b := e.text[i]; !byteClasses[b].special {
		s.scanByte(b, s.escapeStart(from), from+1)
		return 1
	}
	s.inLine = true
	c, n := e.decode(i, maxLevels)
	if c == noChar && e.text[i] == '\\' && n == 1 {
		s.backslashes = s.escapeStart(from) + 1
		return n
	}
	to := from + int64(n)
	if n > 0 {
		from = s.escapeStart(from)
	}
	var room [4]byte
	for _, b := range c.appendTo(room[:0]) {
		s.scanByte(b, from, to)
	}
	return n
}

// escapeStart returns the start of the character at from, including the backslashes before it: without them, the rest
// of the text would have another character.
func (s *scan) escapeStart(from int64) int64 {
	if before := s.backslashes - 1; before >= 0 && from-before < maxSlashes {
		from = before
	}
	s.backslashes = 0
	return from
}

// scanByte adds a byte to the views.
func (s *scan) scanByte(b byte, from, to int64) {
	if s.growth > 0 {
		s.growMatch(b, to)
	}
	if b == '\n' || b == '\r' {
		s.inLine = false
		return
	}
	k := &byteClasses[b]
	if k.plain != 0 && (s.inLine || k.plain != ' ') {
		s.inLine = true
		s.advanceView(&s.all, k.plain, from, to)
	}
	if k.letter != 0 {
		s.advanceView(&s.letters, k.letter, from, to)
		s.listClosed = false
	} else if b > ' ' {
		s.listClosed = isClosing(b)
	}
}

// advanceView adds a symbol to a view.
func (s *scan) advanceView(v *view, symbol byte, from, to int64) {
	if v.dictionary == nil {
		v.history = append(v.history, symbol)
		return
	}
	keep := v.live[:0]
	for _, c := range v.live {
		if from-c.last > maxGap {
			continue
		}
		if c.trieNode = v.child(c.trieNode, symbol); c.lo < c.hi {
			c.last = from
			keep = s.extendCandidate(v, keep, c, to)
		}
	}
	v.live = keep
	if v.count > 0 && from-v.starts[(v.count-1)&7] > maxGap {
		v.count = 0
	}
	v.last = v.last<<8 | uint64(symbol)
	v.starts[v.count&7] = from
	v.count++
	v.end = to
	if v.count >= window && v.hasPrefix(v.last) {
		if p := v.firstSymbols[v.last&lastWindow]; p.lo < p.hi {
			first := v.starts[(v.count-window)&7]
			v.live = s.extendCandidate(v, v.live, candidate{p, max(first, s.floor), from}, to)
		}
	}
}

// extendCandidate records a match if a word ends at the candidate, and keeps the candidate if it has longer words.
func (s *scan) extendCandidate(v *view, keep []candidate, c candidate, to int64) []candidate {
	w, p := v.completeWord(c.trieNode)
	if w != nil {
		s.recordMatch(span{c.from, to}, w)
	}
	if c.trieNode = p; p.lo < p.hi {
		keep = append(keep, c)
	}
	return keep
}

// recordMatch records a match.
func (s *scan) recordMatch(m span, w *word) {
	for n := len(s.found); n > 0 && s.found[n-1].to > m.from; n-- {
		m.from, m.to = min(m.from, s.found[n-1].from), max(m.to, s.found[n-1].to)
		s.found = s.found[:n-1]
	}
	s.found = append(s.found, m)
	s.growth = max(s.growth, w.tail)
}

// growMatch extends the last match by a byte, or ends its growth.
func (s *scan) growMatch(b byte, to int64) {
	m := &s.found[len(s.found)-1]
	switch {
	case b == '=':
		m.to = to
	case b == '\n' || b == '\r' || !s.inLine && (b == ' ' || b == '\t'):
	case s.growth > 1 && (isWord(b) || b == '+' || b == '/' || b == '-'):
		s.growth--
		m.to = to
	default:
		s.growth = 0
	}
}

// firstPending returns the first position at which a secret may have started, or the end of the text if there is none.
// paused reports that one may have started before it all the same: see heldTail.
func (s *scan) firstPending() (first int64, paused bool) {
	known := s.scanned - int64(len(s.rest)) // the rest needs more text
	first = known
	if s.backslashes > 0 {
		first = s.backslashes - 1
	}
	if s.growth > 0 {
		first = min(first, s.found[len(s.found)-1].from)
	}
	for _, v := range s.views() {
		for _, c := range v.live {
			if known-c.last <= maxGap {
				first = min(first, c.from)
			}
		}
		if v.dictionary == nil {
			continue
		}
		from, p := v.heldTail(known, v == &s.all && !s.inLine || v != &s.all && v.end < known, s.listClosed)
		first, paused = min(first, from), paused || p
	}
	return max(first, s.floor), paused
}

func (s *scan) views() [3]*view { return [...]*view{&s.all, &s.letters, &s.raw} }

// releaseBefore releases the text before a position: matches that started earlier count from there on.
func (s *scan) releaseBefore(floor int64) {
	s.floor = floor
	for _, v := range s.views() {
		for i := range v.live {
			v.live[i].from = max(v.live[i].from, floor)
		}
	}
}

// heldTail returns the position of the last symbols that may start a word, or known if there are none. If other text
// follows them, it releases a single symbol, two that are not a byte in hex, and all if that text ends a list, as
// nearly every message does. If a word does start there, its rest is found; paused reports that this is possible.
func (v *view) heldTail(known int64, behind, closed bool) (from int64, paused bool) {
	last := binary.BigEndian.AppendUint64(nil, v.last)
	from = known
	before := v.end
	for n := uint(1); n < window && n <= v.count; n++ {
		at := v.starts[(v.count-n)&7]
		together := before-at == 1
		if before = at; !v.prefix(last[8-n:]) {
			continue
		}
		if behind && (n == 1 || closed || n == 2 && together && !hexPair(last[6:])) {
			paused = true
		} else {
			from = at
		}
	}
	return from, paused
}

// isClosing reports whether b ends a list or a message.
func isClosing(b byte) bool { return b == '}' || b == ']' || b == ')' || b == '>' }

// hexPair reports whether two symbols are those of a letter or digit in hex.
func hexPair(s []byte) bool { return '2' <= s[0] && s[0] <= '7' && hexValue(char(s[1])) < 16 }
