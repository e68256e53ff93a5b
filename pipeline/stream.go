package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	hashing "hash"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// A stream keeps the first bytes of what a program wrote, and counts the rest. It stands behind
// the redactor, so that a secret is gone before it can be cut in half and so pass unseen.
//
// The caller's live writer follows at its own pace in a goroutine of its own: a writer that blocks
// must not hold up the program, whose time limit goes on. One that is to have the whole output, more than
// may be kept, holds it up until loosen is called: there is no other place for what comes.
type stream struct {
	mu        sync.Mutex
	more      sync.Cond
	text      []byte
	safe      int // how much of text can no longer be cut off, and may be shown
	max       int64
	cut       int64
	closed    bool
	delivered chan struct{} // closed when the live writer has it all, or failed
	whole     *window       // what the live writer is still to get, where it is to have all; else nil
}

// window is a part of an output on its way to its reader.
type window struct {
	text  []byte
	sum   hashing.Hash // SHA-256 of all that has come
	came  int64        // bytes
	loose bool         // nobody writes for long any more, so it may grow
	gone  bool         // the reader has failed
}

// maxWindow is how much waits for a reader, in bytes, before the program does: four times a pipe.
const maxWindow = 256 << 10

func newStream(max int64, live io.Writer, whole bool) *stream {
	s := &stream{max: max, delivered: make(chan struct{})}
	if whole && live != nil {
		s.whole = &window{sum: sha256.New()}
	}
	s.more.L = &s.mu
	if live == nil {
		close(s.delivered)
		return s
	}
	go func() {
		defer close(s.delivered)
		if pass(s.next, func(part []byte) error { _, err := live.Write(part); return err }) != nil {
			s.fail()
		}
	}()
	return s
}

// Write never fails, and waits for no live writer but one that is to have all.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.whole; w != nil {
		for len(w.text) >= maxWindow && !w.loose && !w.gone {
			s.more.Wait()
		}
		w.sum.Write(b)
		w.came += int64(len(b))
		if !w.gone {
			w.text = append(w.text, b...)
		}
	}
	defer s.more.Broadcast()
	n := len(b)
	if s.cut > 0 {
		s.cut += int64(n)
		return n, nil
	}
	room := s.max - int64(len(s.text))
	if int64(n) <= room {
		s.text = append(s.text, b...)
	} else {
		s.text = append(s.text, b[:room]...)
		half := safetext.Half(s.text)
		s.text = s.text[:len(s.text)-half]
		s.cut = int64(n) - room + int64(half)
	}
	// Close to the end a character that is not yet complete may be cut off, so it is not shown.
	s.safe = len(s.text)
	if s.cut == 0 && int64(s.safe) > s.max-utf8.UTFMax {
		s.safe -= safetext.Half(s.text)
	}
	return n, nil
}

// isFull reports whether what is written next is only counted.
func (s *stream) isFull() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole == nil && s.cut > 0
}

// skip counts bytes that come to a full stream, and were not written.
func (s *stream) skip(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut += n
}

// Close marks the end of the output.
func (s *stream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.safe = true, len(s.text)
	s.more.Broadcast()
}

// loosen has Write wait for nobody from now on: the program has ended, or is being ended, and what it leaves in its pipes
// is at most a mebibyte.
func (s *stream) loosen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole != nil {
		s.whole.loose = true
		s.more.Broadcast()
	}
}

// pass has f take the parts of a stream, which next returns by how many bytes were before, to its end or an error of f.
func pass(next func(after int) (part []byte, ok bool), f func(part []byte) error) error {
	for done := 0; ; {
		part, ok := next(done)
		if !ok {
			return nil
		}
		if err := f(part); err != nil {
			return err
		}
		done += len(part)
	}
}

// fail gives up what still waits for the live writer.
func (s *stream) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.whole != nil {
		s.whole.gone, s.whole.text = true, nil
		s.more.Broadcast()
	}
}

// next waits for what comes after the first bytes. What it returns is never changed.
func (s *stream) next(after int) ([]byte, bool) {
	w := s.whole
	if w == nil {
		return s.stored(context.Background(), after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(w.text) == 0 && !s.closed {
		s.more.Wait()
	}
	part := w.text
	w.text = nil
	s.more.Broadcast()
	return part, len(part) > 0
}

// stored waits for what is kept after the first bytes, until the stream is closed or ctx ends. What it returns is never changed.
func (s *stream) stored(ctx context.Context, after int) ([]byte, bool) {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.more.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.safe <= after && !s.closed && ctx.Err() == nil {
		s.more.Wait()
	}
	return s.text[after:s.safe:s.safe], s.safe > after
}

// contents returns the text and how many bytes were cut off. Call it after Close.
func (s *stream) contents() (string, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text), s.cut
}

// handed is the SHA-256 of the whole output, and its length, where the live writer was to have all. Call it after Close.
func (s *stream) handed() (sum string, bytes int64, ok bool) {
	if s == nil || s.whole == nil {
		return "", 0, false
	}
	return hex.EncodeToString(s.whole.sum.Sum(nil)), s.whole.came, true
}
