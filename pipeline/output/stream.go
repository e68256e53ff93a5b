// Package output holds what a program writes (stream), and what code displays (displays), for the result and for who
// looks on, who may be slow.
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

// A Stream keeps the first bytes of what a program wrote, and counts the rest. It stands behind
// the redactor, so that a secret is gone before it can be cut in half and so pass unseen.
//
// The caller's live writer follows at its own pace in a goroutine of its own: a writer that blocks
// must not hold up the program, whose time limit goes on. One that is to have the whole output, more than
// may be kept, holds it up until loosen is called: there is no other place for what comes.
type Stream struct {
	Mu        sync.Mutex
	more      sync.Cond
	text      []byte
	safe      int // how much of text can no longer be cut off, and may be shown
	max       int64
	cut       int64
	closed    bool
	Delivered chan struct{} // closed when the live writer has it all, or failed
	Unread    *readerWindow // what the live writer is still to get, where it is to have all; else nil
}

// readerWindow is a part of an output on its way to its reader.
type readerWindow struct {
	Text  []byte
	sum   hashing.Hash // SHA-256 of all that has come
	came  int64        // bytes
	loose bool         // nobody writes for long any more, so it may grow
	gone  bool         // the reader has failed
}

// MaxWindow is how much waits for a reader, in bytes, before the program does: four times a pipe.
const MaxWindow = 256 << 10

// NewStream returns a stream that keeps max bytes, and hands what comes to live, which may be nil: all of it if whole
// says so.
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

// Write never fails, and waits for no live writer but one that is to have all.
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
	// Close to the end a character that is not yet complete may be cut off, so it is not shown.
	s.safe = len(s.text)
	if s.cut == 0 && int64(s.safe) > s.max-utf8.UTFMax {
		s.safe -= safetext.UnfinishedRune(s.text)
	}
	return n, nil
}

// IsFull reports whether what is written next is only counted.
func (s *Stream) IsFull() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Unread == nil && s.cut > 0
}

// Skip counts bytes that come to a full stream, and were not written.
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

// StopWaitingForReaders has Write wait for nobody from now on: the program has ended, or is being ended, and what it leaves in its
// pipes is at most a mebibyte.
func (s *Stream) StopWaitingForReaders() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Unread != nil {
		s.Unread.loose = true
		s.more.Broadcast()
	}
}

// CopyParts has f take the parts of a stream, which next returns by how many bytes were before, to its end or an error of f.
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

// dropUnread gives up what still waits for the live writer.
func (s *Stream) dropUnread() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Unread != nil {
		s.Unread.gone, s.Unread.Text = true, nil
		s.more.Broadcast()
	}
}

// nextPart waits for what comes after the first bytes. What it returns is never changed.
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

// Stored waits for what is kept after the first bytes, until the stream is closed or ctx ends. What it returns is never
// changed.
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

// Contents returns the text and how many bytes were cut off. Call it after Close.
func (s *Stream) Contents() (string, int64) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return string(s.text), s.cut
}

// DeliveredHash is the SHA-256 of the whole output, and its length, where the live writer was to have all. Call it after
// Close.
func (s *Stream) DeliveredHash() (sum string, bytes int64, ok bool) {
	if s == nil || s.Unread == nil {
		return "", 0, false
	}
	return hex.EncodeToString(s.Unread.sum.Sum(nil)), s.Unread.came, true
}
