package vault

import "io"

// Redactor passes text on, with Mark in the place of each secret. Secrets that overlap become one
// Mark.
//
// It holds back what may be the beginning of a secret, and nothing else: at most the longest
// spelling of the longest value. Close lets that go. One goroutine at a time may use it.
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

// Write fails with the error of the underlying writer, and from then on does nothing but return it.
func (r *Redactor) Write(p []byte) (int, error) {
	if r.err == nil {
		r.err = r.pass(p, false)
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

// Close writes what was held back. It returns the error of a Write that failed, too.
func (r *Redactor) Close() error {
	if r.err == io.ErrClosedPipe {
		return nil
	}
	err := r.err
	if err == nil {
		err = r.pass(nil, true)
	}
	r.err = io.ErrClosedPipe
	r.text().wipe()
	return err
}

func (r *Redactor) pass(p []byte, last bool) error {
	m, release, err := r.lease.use()
	if err != nil {
		return err
	}
	if m != nil {
		p = r.text().add(m, p, last)
		release() // before the writer, which may take its time
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
