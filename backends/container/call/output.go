package call

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// An output stream of a command travels in parts, each after its length. While the server needs no output, the init
// counts its bytes, and a part of another kind reports their number: discarded output must not load the engine, or
// a cluster's API server. Each skip request has exactly one report.
const (
	reported  = 1 << 31 // replaces a length: a number of eight bytes follows
	partLimit = 1 << 20
)

// skip is a request to skip output.
type skip struct {
	Stderr bool   `json:",omitempty"`
	Until  []byte `json:",omitempty"`
	Keep   int    `json:",omitempty"`
}

// output is the init's end of an output stream.
type output struct {
	to      *stream
	lasting bool // parts of the output may be skipped, so recent is filled

	mu     sync.Mutex
	skip   *skip  // nil sends everything
	recent []byte // last bytes of the stream: more than the server can have unread or may keep
	total  int64  // bytes of the stream
	at     int64  // position: bytes sent or reported
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total += int64(len(b))
	if o.lasting {
		if o.recent = append(o.recent, b...); len(o.recent) > 2*window {
			o.recent = append(o.recent[:0], o.recent[len(o.recent)-window:]...)
		}
	}
	var err error
	switch {
	case o.skip == nil:
		o.at = o.total
		err = o.to.writePart(b)
	case len(o.skip.Until) > 0:
		tail := o.recent[max(0, len(o.recent)-len(b)-len(o.skip.Until)+1):]
		if i := bytes.Index(tail, o.skip.Until); i >= 0 {
			err = o.resume(o.total - int64(len(tail)-i))
		}
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// startSkip starts skipping, unless the text that ends the skip has already been sent.
func (o *output) startSkip(s skip) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.Keep = min(max(s.Keep, 0), backends.MaxKeep)
	if o.skip != nil { // our own server never asks twice
		return
	}
	o.skip = &s
	if len(s.Until) > 0 && (!o.lasting || bytes.Contains(o.recent, s.Until)) {
		_ = o.resume(o.total)
	}
}

// endSkip ends a skip in progress.
func (o *output) endSkip() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.skip != nil {
		_ = o.resume(o.total - int64(min(o.skip.Keep, len(o.recent))))
	}
}

// resume reports the skipped bytes, and continues the stream from a position.
func (o *output) resume(from int64) error {
	from = max(from, o.at)
	report := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, reported), uint64(from-o.at))
	o.skip, o.at = nil, o.total
	return errors.Join(o.to.writePair(report, nil), o.to.writePart(o.recent[len(o.recent)-int(o.total-from):]))
}

// writePart sends one part of an output.
func (s *stream) writePart(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return s.writePair(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b)
}

// writePair sends two texts in one write.
func (s *stream) writePair(a, b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return io.ErrClosedPipe
	}
	if _, err := s.w.Write(a); err != nil {
		return err
	}
	_, err := s.write(b)
	return err
}

// readPart reads the beginning of a part: its length, or the number in a report.
func readPart(in io.Reader) (length int, report int64, is bool, err error) {
	var head [8]byte
	if _, err = io.ReadFull(in, head[:4]); err != nil {
		return 0, 0, false, err
	}
	n := binary.BigEndian.Uint32(head[:4])
	switch {
	case n == reported:
		_, err = io.ReadFull(in, head[:])
		report = int64(binary.BigEndian.Uint64(head[:]))
		is = true
	case n > partLimit:
		err = errLong
	}
	return int(n), report, is, err
}
