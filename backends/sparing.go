package backends

import "io"

// Sparing is implemented by a writer of [Streams] that at times does not need the next output. A backend with
// remote sandboxes calls Spare after each Write, and has unneeded output counted at its origin; other backends may
// write all.
type Sparing interface {
	io.Writer
	// Spare returns nil if the next output is needed. Otherwise it is not called again before Done.
	Spare() *Skip
}

// Skip describes output that is counted instead of written.
type Skip struct {
	Until []byte          // the text that ends the skip, and is written; nil: only Stop does, or the end of the stream
	Keep  int             // bytes before Stop, or before the end of the stream, that are written nevertheless, at most [MaxKeep]
	Stop  <-chan struct{} // closed to end the skip; may be nil
	Done  func(n int64)   // called once in place of the n skipped bytes, before the next Write
}

// MaxKeep is the largest Skip.Keep, in bytes.
const MaxKeep = 64 << 10
