package call

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Content whose end must not be mistaken for the stream's (a file, one direction of a connection)
// travels in chunks: a length of four bytes and as much content. A length of 0 is the end, and lengthFailed
// says that the content could not be had: a failure follows as a message.
const (
	chunk        = 32 << 10 // bytes; what an init keeps for each copy
	mostChunk    = 66 << 10 // bytes; a packet with its address
	lengthFailed = 1<<32 - 1
)

// chunks writes them. It may be used concurrently. What a deadline has interrupted is sent first the
// next time, so that the other side never sees a chunk in the middle of another.
type chunks struct {
	to   io.Writer
	size int

	mu   sync.Mutex
	buf  []byte
	rest []byte // of buf, to be sent yet
	over bool   // the end is sent, or in rest
}

func newChunks(to io.Writer, size int) *chunks { return &chunks{to: to, size: size} }

func (c *chunks) flush() error {
	for len(c.rest) > 0 {
		n, err := c.to.Write(c.rest)
		c.rest = c.rest[n:]
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends one chunk, or the end if there is nothing in it.
func (c *chunks) send(pieces ...[]byte) error {
	n := 0
	c.buf = append(c.buf[:0], 0, 0, 0, 0)
	for _, p := range pieces {
		n += len(p)
		c.buf = append(c.buf, p...)
	}
	binary.BigEndian.PutUint32(c.buf, uint32(n))
	c.rest = c.buf
	return c.flush()
}

// Write implements [io.Writer]. What it counts is sent or will be.
func (c *chunks) Write(p []byte) (n int, err error) {
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

// packet sends what must stay one chunk.
func (c *chunks) packet(pieces ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil {
		return err
	}
	return c.send(pieces...)
}

// end says that all was sent. It may be tried again.
func (c *chunks) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil || c.over {
		return err
	}
	c.over = true
	return c.send()
}

// fail says that there is no more to be had.
func (c *chunks) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.flush(); err != nil {
		return err
	}
	if _, err := c.to.Write(binary.BigEndian.AppendUint32(nil, lengthFailed)); err != nil {
		return err
	}
	return write(c.to, failureOf(err), mostFromInit)
}

// unchunk reads chunks. A deadline that interrupts it in the middle of one does no harm.
type unchunk struct {
	from io.Reader
	head [4]byte
	got  int // of head
	left int // of the chunk
	over error
}

var errChunk = errors.New("a chunk is too long")

// next waits for a chunk, unless one is under way. It returns io.EOF at the end, and
// io.ErrUnexpectedEOF if the stream ended before.
func (u *unchunk) next() error {
	if u.over != nil || u.left > 0 {
		return u.over
	}
	for u.got < len(u.head) {
		n, err := u.from.Read(u.head[u.got:])
		u.got += n
		if err != nil && u.got < len(u.head) {
			return u.broken(err)
		}
	}
	u.got = 0
	switch n := binary.BigEndian.Uint32(u.head[:]); {
	case n == 0:
		u.over = io.EOF
	case n == lengthFailed:
		var f failure
		if u.over = read(u.from, &f, mostFromInit); u.over == nil {
			u.over = f.err()
		}
	case n > mostChunk:
		u.over = fmt.Errorf("%w: %d bytes", errChunk, n)
	default:
		u.left = int(n)
	}
	return u.over
}

// broken is what a stream's end is in the middle of content.
func (u *unchunk) broken(err error) error {
	if errors.Is(err, io.EOF) {
		u.over = io.ErrUnexpectedEOF
		return u.over
	}
	return err
}

// Read implements [io.Reader].
func (u *unchunk) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := u.next(); err != nil {
		return 0, err
	}
	n, err := u.from.Read(p[:min(len(p), u.left)])
	u.left -= n
	if err != nil && n == 0 {
		return 0, u.broken(err)
	}
	return n, nil
}
