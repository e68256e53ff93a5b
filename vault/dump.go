package vault

import (
	"bytes"
	"slices"
)

// dump is what a line of a hex dump has besides numbers: a column of offsets, and one of text, which may also be just
// text. So the letters of the column are scanned, and in the next line the scan goes on both from there and from before.
type dump struct {
	offset int64 // behind the column of offsets, if the line has one
	blanks int   // before this byte
	begun  bool  // there was something else than blanks and the offset
	text   bool  // the column of text may have begun
	saved  view  // the letters before it
}

// idle reports whether nothing is known of the line.
func (d *dump) idle() bool { return d.offset == 0 && !d.text }

// begin tells what the line begins with, which is at from. It reports false if more text is needed.
func (d *dump) begin(text []byte, from int64, last bool) bool {
	n := 0
	for n < len(text) && n <= 8 && digit(char(text[n])) < 16 {
		n++
	}
	switch {
	case n > 8 || !bytes.HasPrefix([]byte("00"), text[:min(n, 2)]):
	case n == len(text):
		return last
	case n == 8 && text[2] != '0': // bits of a letter
	case n >= 7 && (text[n] == ':' || text[n] == ' ' || text[n] == '\n'):
		d.offset = from + int64(n)
	}
	return true
}

// next looks whether the column of text begins with b: behind two blanks, as xxd writes it, or at a mark.
func (d *dump) next(b byte, letters *view) {
	if b == ' ' {
		d.blanks++
		return
	}
	mark := d.blanks >= 2 && (b == '|' || b == '>')
	if (mark || d.blanks == 2 && d.begun && !d.text) && (d.offset > 0 || len(letters.live) > 0) {
		live := append(d.saved.live[:0], letters.live...)
		d.text, d.saved = true, *letters
		d.saved.live = live
	}
	d.blanks, d.begun = 0, d.begun || isWord(b)
}

// end is at the end of the line, which is at a position of the text.
func (d *dump) end(letters *view, at int64) {
	if d.text {
		live := letters.live
		for _, c := range d.saved.live {
			if at-c.last <= maxGap && !slices.Contains(live, c) {
				live = append(live, c)
			}
		}
		if saved := d.saved; d.offset > 0 {
			*letters = saved
		}
		letters.live = live
	}
	*d = dump{saved: view{live: d.saved.live[:0]}}
}
