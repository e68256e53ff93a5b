package vault

import (
	"io"
	"slices"
)

// Redactor writes text to a writer, with Mark in place of each secret. Overlapping secrets become one Mark.
//
// It holds back only a possible start of a secret: at most the longest spelling of the longest value. Close releases
// it. It is not safe for concurrent use.
type Redactor struct {
	lease *Lease
	w     io.Writer
	text  func() *redaction // a function, as in Lease
	err   error             // of the first call that failed; io.ErrClosedPipe after Close
}

// Writer returns a Redactor that writes to w, and does not close it.
func (l *Lease) Writer(w io.Writer) *Redactor {
	text := &redaction{}
	return &Redactor{lease: l, w: w, text: func() *redaction { return text }}
}

// Write fails with the error of the underlying writer, and afterwards always returns that error.
func (r *Redactor) Write(p []byte) (int, error) {
	if r.err == nil {
		r.err = r.writeRedacted(p, false)
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

// Close writes the bytes that were held back. It also returns the error of an earlier Write.
func (r *Redactor) Close() error {
	if r.err == io.ErrClosedPipe {
		return nil
	}
	err := r.err
	if err == nil {
		err = r.writeRedacted(nil, true)
	}
	r.err = io.ErrClosedPipe
	r.text().wipe()
	return err
}

func (r *Redactor) writeRedacted(p []byte, last bool) error {
	m, release, err := r.lease.acquireMatcher()
	if err != nil {
		return err
	}
	if m != nil {
		p = r.text().feed(m, p, last)
		release() // before the write, which may block
	}
	if len(p) == 0 {
		return nil
	}
	n, err := r.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// Mark replaces a secret in text.
const Mark = "***REDACTED***"

// redaction redacts text that comes in pieces.
type redaction struct {
	scan  scan
	held  []byte // the text from the position done on
	done  int64  // the text before it was written, or replaced by Mark
	clean []byte
}

// feed takes the next piece of text and returns the redacted text that can be written. The result may be a part of p,
// and is valid until the next call. After the last piece, nothing is held back.
func (r *redaction) feed(m *matcher, p []byte, last bool) []byte {
	r.scan.matcher = m
	r.scan.feed(p, last)
	limit := r.scan.scanned
	if !last {
		limit, _ = r.scan.firstPending()
		r.scan.releaseBefore(limit)
	}
	if len(r.held) == 0 && len(r.scan.found) == 0 {
		n := limit - r.done
		r.held = append(r.held, p[n:]...)
		r.done = limit
		return p[:n]
	}
	base := r.done
	r.held = append(r.held, p...)
	r.redactBefore(limit)
	n := copy(r.held, r.held[r.done-base:])
	r.held = r.held[:n]
	return r.clean
}

// redactBefore redacts the text before limit, since text from limit on may still become a secret. A Mark is written as
// soon as the start of its secret is certain; the rest of the secret, which may still grow, is dropped.
func (r *redaction) redactBefore(limit int64) {
	base := r.done
	r.clean = r.clean[:0]
	pass := func(to int64) {
		if to > r.done {
			r.clean = append(r.clean, r.held[r.done-base:to-base]...)
			r.done = to
		}
	}
	settled := 0
	for _, s := range r.scan.found {
		if s.from > limit {
			break
		}
		if r.done <= s.from {
			pass(s.from)
			r.clean = append(r.clean, Mark...)
		}
		r.done = s.to
		if s.to > limit {
			break
		}
		settled++
	}
	r.scan.found = slices.Delete(r.scan.found, 0, settled)
	pass(limit)
}

// redactText redacts a whole text.
func redactText(m *matcher, s string) string {
	var r redaction
	text := []byte(s)
	defer clear(text)
	defer r.wipe()
	return string(r.feed(m, text, true))
}

// wipe clears the text in memory.
func (r *redaction) wipe() {
	clear(r.held[:cap(r.held)])
	clear(r.clean[:cap(r.clean)])
	clear(r.scan.rest[:cap(r.scan.rest)])
	r.held, r.clean, r.scan.rest = nil, nil, nil
}
