package tokens

// walk matches a format at a position of the text. Positions are those of the scan's buffer.
type walk struct {
	format   *format
	begin    string // what it begins with
	beginLen int    // the length of that
	from     int    // where it began
	secret   int    // from here on, the text is masked
	at       int    // so far it went
	end      int    // when it is sure: so far it is certain
	piece    int
	n        int // bytes of the piece
	sure     bool
	keyText  keyText
}

// verdict is the state of a walk.
type verdict int

const (
	never verdict = iota // it does not fit
	fits                 // it does; from here on it grows
	waits                // the text has ended too soon to say
	over                 // it fitted, and does not go on
)

// follow matches as far as the text goes.
func (w *walk) follow(text []byte, last bool) verdict {
	f := w.format
	if len(w.begin) > 0 {
		ok, done := w.literal(w.begin, text)
		if !ok || !done {
			return waitsIf(ok && !last)
		}
		w.begin, w.n = "", 0
	}
	for w.piece < len(f.pieces) {
		if !w.sure && w.piece == f.sure {
			return fits
		}
		if w.piece == f.public && w.n == 0 && !w.sure && f.public > 0 {
			w.secret = w.at
		}
		p := &f.pieces[w.piece]
		var ok, done bool
		if p.text != "" {
			ok, done = w.literal(p.text, text)
		} else {
			ok, done = w.run(p, text, last)
		}
		switch {
		case !ok && !w.sure:
			return never
		case !ok:
			return over
		case !done && !last:
			return waits
		case !done && !w.sure:
			return never
		case !done:
			return over
		}
		w.piece++
		w.n = 0
	}
	if !w.sure {
		return fits
	}
	return over
}

func waitsIf(may bool) verdict {
	if may {
		return waits
	}
	return never
}

// literal matches bytes of want; done reports that all matched.
func (w *walk) literal(want string, text []byte) (ok, done bool) {
	for ; w.n < len(want) && w.at < len(text); w.n++ {
		if text[w.at] != want[w.n] {
			return false, false
		}
		w.at++
	}
	return true, w.n == len(want)
}

// run matches a run of bytes; done reports that the run has ended.
func (w *walk) run(p *piece, text []byte, last bool) (ok, done bool) {
	for w.at < len(text) && (p.max == 0 || w.n < p.max) && p.set[text[w.at]] {
		if p.key && !w.keyText.takes(text[w.at]) {
			break
		}
		w.at++
		w.n++
	}
	if w.sure && w.n >= p.min {
		w.end = w.at
		if p.key && w.keyText.dashes > 0 { // the last line may begin here
			w.end--
		}
	}
	full := p.max > 0 && w.n == p.max
	switch {
	case w.at < len(text):
		return w.n >= p.min && (p.after == nil || p.after[text[w.at]]), true
	case full && p.after == nil:
		return true, true
	case last:
		return w.n >= p.min && (p.after == nil || p.end), true
	}
	return true, false
}

// moved adjusts positions after n bytes were dropped from the buffer's beginning.
func (w *walk) moved(n int) {
	w.from -= n
	w.secret -= n
	w.at -= n
	w.end -= n
}

// keyText tells the body of a key from text after it, where the last line of the key is missing: such text has short
// words.
type keyText struct {
	word   int
	long   bool // there was a line of a key
	shorts int  // words since then
	dashes int
}

func (l *keyText) takes(b byte) bool {
	if b == '-' {
		if l.dashes > 0 {
			return false
		}
		l.dashes = 1
		return true
	}
	l.dashes = 0
	if base64Std[b] || b == '=' {
		l.word++
		return true
	}
	if l.word >= 32 {
		l.long = true
	} else if l.word > 0 && l.word < 16 && l.long {
		l.shorts++
	}
	l.word = 0
	return l.shorts <= 3
}
