// Package tokens finds tokens and keys of well-known formats in a program's output, though they are in no
// vault: the second net, behind the redaction of leased secrets.
//
// It recognizes formats only. Passwords, bare hex strings, and tokens that are encoded or cut into pieces are not
// found, so a text without findings may still have secrets. Placeholders of bound secrets and examples of manuals are
// not tokens.
package tokens

import (
	"io"
	"slices"
	"strings"
)

// Mark replaces a token in text.
const Mark = "***REDACTED***"

// NewWriter returns a writer that passes text on to w, which it does not close. It calls found with the kind of each
// token, such as "a GitHub token", and if mask is set, replaces the token by Mark.
//
// With mask it holds back a possible beginning of a token until that is decided, at most 4 KB, and Close releases it;
// without mask it holds nothing back. It is not safe for concurrent use.
func NewWriter(w io.Writer, mask bool, found func(kind string)) io.WriteCloser {
	return &writer{w: w, mask: mask, scan: scan{known: knownHeads(), found: found, text: []byte{'\n'}, done: 1, position: 1}}
}

// MayContain reports whether a whole text may have a token. For ordinary text, the answer false is cheap.
func MayContain(text string) bool {
	for at := 0; ; at++ {
		var heads []head
		if at, heads = skip(knownHeads(), text, at); heads == nil {
			return false
		} else if slices.ContainsFunc(heads, func(h head) bool { return strings.HasPrefix(text[at:], h.text) }) {
			return true
		}
	}
}

// writer is the writer of NewWriter.
type writer struct {
	w    io.Writer
	mask bool
	scan scan
	err  error // of the first call that failed; io.ErrClosedPipe after Close
}

// Write fails with the error of the underlying writer, and afterwards always returns that error.
func (w *writer) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, 32<<10) { // fits in the processor's cache
		w.pass(piece, false)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close writes the bytes that were held back. It also returns the error of an earlier Write.
func (w *writer) Close() error {
	if w.err == io.ErrClosedPipe {
		return nil
	}
	w.pass(nil, true)
	err := w.err
	w.err = io.ErrClosedPipe
	w.scan.wipe()
	return err
}

func (w *writer) pass(p []byte, last bool) {
	if w.err != nil {
		return
	}
	clean := w.scan.feed(p, last)
	if !w.mask {
		clean = p
	}
	if len(clean) == 0 {
		return
	}
	n, err := w.w.Write(clean)
	if err == nil && n < len(clean) {
		err = io.ErrShortWrite
	}
	w.err = err
}
