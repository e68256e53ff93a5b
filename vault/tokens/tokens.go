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
