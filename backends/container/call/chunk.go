package call

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Content whose end must differ from the stream's (a file, one direction of a connection)
// travels in chunks: a length of four bytes and as much content. A length of 0 is the end, and lengthFailed
// says that the content could not be had: a failure follows as a message.
const (
	chunk        = 32 << 10 // bytes; what an init keeps for each copy
	maxChunk     = 66 << 10 // bytes; a packet with its address
	lengthFailed = 1<<32 - 1
)

// chunkWriter writes chunks. It may be used concurrently. Bytes that a deadline has held back are sent first the next
// time, so that no chunk begins within another.
type chunkWriter struct {
	to   io.Writer
	size int

	mu     sync.Mutex
	buf    []byte
	unsent []byte // of buf, to be sent yet
	ended  bool   // the end is sent, or in rest
}

func newChunkWriter(to io.Writer, size int) *chunkWriter { return &chunkWriter{to: to, size: size} }

func (c *chunkWriter) flush() error {
	for len(c.unsent) > 0 {
		n, err := c.to.Write(c.unsent)
		c.unsent = c.unsent[n:]
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends one chunk, or the end if it is empty.
func (c *chunkWriter) send(pieces ...[]byte) error {
	n := 0
	c.buf = append(c.buf[:0], 0, 0, 0, 0)
	for _, p := range pieces {
		n += len(p)
		c.buf = append(c.buf, p...)
	}
	binary.BigEndian.PutUint32(c.buf, uint32(n))
	c.unsent = c.buf
	return c.flush()
}

// Write implements [io.Writer]. Counted bytes are sent or will be.
func (c *chunkWriter) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil {
		return 0, err
	}
	for len(p) > 0 {
		m := min(len(p), c.size)
		err = c.send(p[:m])
		n, p = n+m, p[m:]
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// packet sends pieces as one chunk.
func (c *chunkWriter) packet(pieces ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil {
		return err
	}
	return c.send(pieces...)
}

// end marks the end of the content. It may be called again after an error.
func (c *chunkWriter) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil || c.ended {
		return err
	}
	c.ended = true
	return c.send()
}

// fail reports that the content can't be had.
func (c *chunkWriter) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil {
		return err
	}
	if _, err := c.to.Write(binary.BigEndian.AppendUint32(nil, lengthFailed)); err != nil {
		return err
	}
	return write(c.to, failureOf(err), maxInitMessage)
}

// chunkReader reads chunks. A deadline that interrupts it within a chunk does no harm.
type chunkReader struct {
	from   io.Reader
	header [4]byte
	got    int // of head
	left   int // of the chunk
	end    error
}

// next waits for a chunk, unless one is under way. It returns io.EOF at the end, and
// io.ErrUnexpectedEOF if the stream ended before.
func (u *chunkReader) next() error {
	if u.end != nil || u.left > 0 {
		return u.end
	}
	for u.got < len(u.header) {
		n, err := u.from.Read(u.header[u.got:])
		u.got += n
		if err != nil && u.got < len(u.header) {
			return u.endError(err)
		}
	}
	u.got = 0
	switch n := binary.BigEndian.Uint32(u.header[:]); {
	case n == 0:
		u.end = io.EOF
	case n == lengthFailed:
		var f failure
		if u.end = read(u.from, &f, maxInitMessage); u.end == nil {
			u.end = f.err()
		}
	case n > maxChunk:
		u.end = fmt.Errorf("a chunk is too long: %d bytes", n)
	default:
		u.left = int(n)
	}
	return u.end
}

// endError translates the end of the stream within content.
func (u *chunkReader) endError(err error) error {
	if errors.Is(err, io.EOF) {
		u.end = io.ErrUnexpectedEOF
		return u.end
	}
	return err
}

// Read implements [io.Reader].
func (u *chunkReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := u.next(); err != nil {
		return 0, err
	}
	n, err := u.from.Read(p[:min(len(p), u.left)])
	u.left -= n
	if err != nil && n == 0 {
		return 0, u.endError(err)
	}
	return n, nil
}
