// Package tokens finds well-known formats of tokens and keys in what a program says, though they are in no
// vault: the second net, behind the redaction of secrets that were lent.
//
// It goes by their shape alone. What has no shape (a password, a bare hex string) it does not know, nor
// what is encoded or cut into pieces, and it never says that a text is clean. Placeholders of bound
// secrets and the examples of manuals are no tokens.
package tokens

import "io"

// Mark is what stands in the text where a token was.
const Mark = "***REDACTED***"

// NewWriter returns a writer that passes text on to w, which it does not close. It calls found with the
// kind of each token that it meets, such as "a GitHub token", and if mask is set, puts Mark in its place.
//
// With mask it holds back what may be the beginning of a token until that is decided, at most
// 4 KB, and Close lets it go; without, it holds nothing back. One goroutine at a time may use it.
func NewWriter(w io.Writer, mask bool, found func(kind string)) io.WriteCloser {
	return &writer{w: w, mask: mask, scan: newScan(found)}
}

// May reports whether a token may begin in text, which a writer would then have to go through. It says
// no of most short texts, hashes and names among them, at a fraction of what making a writer costs.
func May(text string) bool {
	var room [512]byte                             // on the stack
	all := append(append(room[:0], '\n'), text...) // behind a line's end, as in newScan
	_, entries := known().skip(all, 0)
	return entries != nil
}

// writer is a scan between two writers.
type writer struct {
	w    io.Writer
	mask bool
	scan *scan
	err  error // of the first call that failed; io.ErrClosedPipe after Close
}

// scanSize is how many bytes are scanned at once: it keeps the copy of them in the processor's cache.
const scanSize = 32 << 10

// Write fails with the error of the underlying writer, and from then on does nothing but return it.
func (w *writer) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && w.err == nil; {
		piece := rest[:min(scanSize, len(rest))]
		rest = rest[len(piece):]
		w.pass(piece, false)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close writes what was held back. It returns the error of a Write that failed, too.
func (w *writer) Close() error {
	if w.err == io.ErrClosedPipe {
		return nil
	}
	if w.err == nil {
		w.pass(nil, true)
	}
	err := w.err
	w.err = io.ErrClosedPipe
	w.scan.wipe()
	return err
}

func (w *writer) pass(p []byte, last bool) {
	clean := w.scan.add(p, last)
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
