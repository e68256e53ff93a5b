package tokens

import (
	"bytes"
	"io"
	"regexp"
	"unicode"
)

const (
	before = 64   // bytes in front of a token that are inspected
	reach  = 4000 // bytes from its beginning on within which it must be decided
)

// scan finds tokens in text that comes in pieces. It holds back text that may start a token until that is decided. The
// decision depends on the text alone, not on how it was cut.
type scan struct {
	known    *index
	found    func(kind string)
	text     []byte         // the end of the released text, as context of a token, then the unreleased text
	done     int            // the text before it was passed on, or replaced by Mark
	position int            // a token may start from here on
	rest     *regexp.Regexp // extension of the token that ends at position; nil for none
	clean    []byte
	reader   reader // of a match
}

// feed takes the next piece of text, and returns the text that can be passed on, which is valid until the next call.
// After the last piece, nothing is held back.
func (s *scan) feed(p []byte, last bool) []byte {
	s.clean = s.clean[:0]
	if n := s.done - before; n > 0 {
		s.text = s.text[:copy(s.text, s.text[n:])]
		s.done, s.position = s.done-n, s.position-n
	}
	s.text = append(s.text, p...)
	for s.advance(last) {
	}
	if last {
		s.position = len(s.text)
	}
	s.passUntil(s.position)
	return s.clean
}

// passUntil releases the text up to a position.
func (s *scan) passUntil(to int) {
	s.clean = append(s.clean, s.text[s.done:to]...)
	s.done = to
}

// advance moves to the next position where a token may start. It reports whether there is more text to scan.
func (s *scan) advance(last bool) bool {
	if s.rest != nil {
		s.position += len(s.rest.Find(s.text[s.position-16:])) - 16
		if s.done = s.position; s.position == len(s.text) {
			return false
		}
		s.rest = nil
	}
	var heads []head
	s.position, heads = skip(s.known, s.text, s.position)
	for _, h := range heads {
		if found, waits := s.match(h, last); waits {
			return false
		} else if found != nil && h.format.check(found) {
			s.mask(h.format, found)
			return true
		}
	}
	if heads == nil {
		return false
	}
	s.position++
	return true
}

// match returns the token of a format at the scan's position, or nil, and whether the result depends on further text.
func (s *scan) match(h head, last bool) (found *token, waits bool) {
	f, text, behind := h.format, s.text[s.position:], s.text[max(0, s.position-before):s.position]
	n := min(len(h.text), len(text))
	if string(text[:n]) != h.text[:n] || !f.mayStandBehind(behind) {
		return nil, false
	} else if n < len(h.text) {
		return nil, !last
	}
	if i := bytes.IndexAny(text[n:min(n+f.within, len(text))], f.stops); i >= 0 && text[n+i] != '@' {
		return nil, false
	}
	r := &s.reader
	*r = reader{text: text[n:min(reach, len(text))], more: !last && len(text) < reach}
	f.compile.Do(f.compilePatterns)
	place := f.body.FindReaderSubmatchIndex(r)
	if r.more && r.ended {
		return nil, true
	} else if place == nil || !f.before.Match(behind) {
		return nil, false
	}
	return &token{behind, text[:n+place[3]], text[n+place[2] : n+place[3]]}, false
}

// mayStandBehind reports whether a token may follow this text: it does not end in a byte of the format's class, or it
// ends in an escape, as in JSON, a URL or coloured text.
func (f *format) mayStandBehind(text []byte) bool {
	if f.notAfter == "" {
		return true
	}
	text = text[max(0, len(text)-16):]
	b := text[len(text)-1]
	switch {
	case '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' || 'a' <= b && b <= 'z':
		return (b == 'm' || bytes.ContainsAny(text[max(0, len(text)-6):], `\%`)) && escape().Match(text)
	}
	return f.notAfter != base64URL || b != '_' && b != '-'
}

// mask replaces a token by Mark.
func (s *scan) mask(f *format, t *token) {
	s.found(f.kind)
	end := s.position + len(t.whole)
	if f.keepsPrefix {
		s.position = end - len(t.secret)
	}
	s.passUntil(s.position)
	s.clean = append(s.clean, Mark...)
	s.done, s.position, s.rest = end, end, f.after
}

// wipe clears the text in memory.
func (s *scan) wipe() {
	clear(s.text[:cap(s.text)])
	clear(s.clean[:cap(s.clean)])
	s.text, s.clean, s.done, s.position, s.rest = nil, nil, 0, 0, nil
}

// reader reads bytes as runes for a regular expression, which reads one rune ahead. If more text is to come, it adds
// one more rune, so that only a match that needs further text reads the end.
type reader struct {
	text  []byte
	at    int
	more  bool
	ended bool // the end was read: the match depends on further text
}

func (r *reader) ReadRune() (rune, int, error) {
	r.at++
	switch {
	case r.at <= len(r.text):
		return rune(r.text[r.at-1]), 1, nil
	case r.more && r.at == len(r.text)+1:
		return unicode.MaxRune, 1, nil
	}
	r.ended = true
	return 0, 0, io.EOF
}
