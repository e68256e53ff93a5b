// Package output buffers a program's output (stream) and displays (displays) for the result and for observers, which
// may be slow.
package output

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

// A Stream keeps the first bytes of a program's output, and counts the rest. It follows the redactor, because a
// secret that is cut in half would not be recognized.
//
// The caller's live writer follows at its own pace in a goroutine of its own: a writer that blocks must not block the
// program, whose time limit goes on. A writer of the whole output, which may exceed the stored part, does block the
// program until StopWaitingForReaders is called, because there is no other place for the output.
type Stream struct {
	Mu        sync.Mutex
	more      sync.Cond
	text      []byte
	safe      int // length of text that will not be cut, so it can be read
	max       int64
	cut       int64
	closed    bool
	Delivered chan struct{} // closed when the live writer has all output, or failed
	Unread    *readerWindow // output on its way to a live writer of the whole output, else nil
}

// readerWindow is the part of an output that is on its way to its reader.
type readerWindow struct {
	Text  []byte
	sum   hashing.Hash // SHA-256 of the output so far
	came  int64        // bytes of the output so far
	loose bool         // the output ends soon, so the window may grow
	gone  bool         // the reader has failed
}

// MaxWindow is the number of bytes that wait for a reader before the program blocks: four times a pipe.
const MaxWindow = 256 << 10

// NewStream returns a stream that keeps max bytes, and passes them to live, which may be nil: with whole, it passes
// all output.
func NewStream(max int64, live io.Writer, whole bool) *Stream {
	s := &Stream{max: max, Delivered: make(chan struct{})}
	if whole && live != nil {
		s.Unread = &readerWindow{sum: sha256.New()}
	}
	s.more.L = &s.Mu
	if live == nil {
		close(s.Delivered)
		return s
	}
	go func() {
		defer close(s.Delivered)
		if CopyParts(s.nextPart, func(part []byte) error { _, err := live.Write(part); return err }) != nil {
			s.dropUnread()
		}
	}()
	return s
}

// Write never fails. It waits only for a live writer of the whole output.
func (s *Stream) Write(b []byte) (int, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if w := s.Unread; w != nil {
		for len(w.Text) >= MaxWindow && !w.loose && !w.gone {
			s.more.Wait()
		}
		w.sum.Write(b)
		w.came += int64(len(b))
		if !w.gone {
			w.Text = append(w.Text, b...)
		}
	}
	defer s.more.Broadcast()
	n := len(b)
	if s.cut > 0 {
		s.cut += int64(n)
		return n, nil
	}
	if room := s.max - int64(len(s.text)); int64(n) <= room {
		s.text = append(s.text, b...)
	} else {
		s.text = append(s.text, b[:room]...)
		half := safetext.UnfinishedRune(s.text)
		s.text = s.text[:len(s.text)-half]
		s.cut = int64(n) - room + int64(half)
	}
	// Near the limit, an incomplete character may still be cut, so it can't be read yet.
	s.safe = len(s.text)
	if s.cut == 0 && int64(s.safe) > s.max-utf8.UTFMax {
		s.safe -= safetext.UnfinishedRune(s.text)
	}
	return n, nil
}

// IsFull reports whether further output is only counted.
func (s *Stream) IsFull() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Unread == nil && s.cut > 0
}

// Skip counts bytes that a full stream did not receive.
func (s *Stream) Skip(n int64) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.cut += n
}

// Close marks the end of the output.
func (s *Stream) Close() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.closed, s.safe = true, len(s.text)
	s.more.Broadcast()
}

// StopWaitingForReaders makes Write wait for nothing from now on: the program has ended, or is ending, and its pipes
// hold at most a mebibyte.
func (s *Stream) StopWaitingForReaders() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Unread != nil {
		s.Unread.loose = true
		s.more.Broadcast()
	}
}

// CopyParts calls f with the parts of a stream, to its end or an error of f. next returns the part after a number of
// bytes.
func CopyParts(next func(after int) (part []byte, ok bool), f func(part []byte) error) error {
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

// dropUnread drops the output that still waits for the live writer.
func (s *Stream) dropUnread() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Unread != nil {
		s.Unread.gone, s.Unread.Text = true, nil
		s.more.Broadcast()
	}
}

// nextPart waits for output after the first bytes. The returned slice is never changed.
func (s *Stream) nextPart(after int) ([]byte, bool) {
	w := s.Unread
	if w == nil {
		return s.Stored(context.Background(), after)
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for len(w.Text) == 0 && !s.closed {
		s.more.Wait()
	}
	part := w.Text
	w.Text = nil
	s.more.Broadcast()
	return part, len(part) > 0
}

// Stored waits for stored output after the first bytes, until the stream is closed or ctx ends. The returned slice is
// never changed.
func (s *Stream) Stored(ctx context.Context, after int) ([]byte, bool) {
	stop := context.AfterFunc(ctx, func() {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.more.Broadcast()
	})
	defer stop()
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for s.safe <= after && !s.closed && ctx.Err() == nil {
		s.more.Wait()
	}
	return s.text[after:s.safe:s.safe], s.safe > after
}

// Contents returns the stored text and the number of bytes cut off. It must be called after Close.
func (s *Stream) Contents() (string, int64) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return string(s.text), s.cut
}

// DeliveredHash returns the SHA-256 and the length of the whole output, if the live writer received all of it. It
// must be called after Close.
func (s *Stream) DeliveredHash() (sum string, bytes int64, ok bool) {
	if s == nil || s.Unread == nil {
		return "", 0, false
	}
	return hex.EncodeToString(s.Unread.sum.Sum(nil)), s.Unread.came, true
}
