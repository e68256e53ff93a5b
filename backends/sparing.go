package backends

import "io"

// Sparing is implemented by a writer of [Streams] that at times needs nothing of what comes next. A backend whose
// sandboxes are elsewhere asks it after each Write, and has such output counted where it comes from; any other may go
// on to write all.
type Sparing interface {
	io.Writer
	// Spare returns nil where what comes next is needed. Otherwise it is not called again before Done.
	Spare() *Skip
}

// Skip describes output that is counted instead of written.
type Skip struct {
	Until []byte          // the text that ends it, and is written; nil: only Stop does, or the end of the stream
	Keep  int             // bytes before Stop, or before the end of the stream, that are written all the same, at most [MaxKeep]
	Stop  <-chan struct{} // ends it when it is closed; may be nil
	Done  func(n int64)   // is called once, in the place of the n bytes that were left out: before the Write of what follows
}

// MaxKeep is the largest Skip.Keep, in bytes.
const MaxKeep = 64 << 10
