package tokens

import "io"

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
