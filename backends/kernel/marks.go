package kernel

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

const (
	// betweenMax bounds the bytes of output between cells that are kept for the next.
	betweenMax = 64 << 10
	// markTimeout bounds the wait for a mark when no other output comes: the driver writes the mark before its
	// reply, so it is in the pipe, unless the program closed the descriptor.
	markTimeout = 200 * time.Millisecond
	// markLimit bounds the wait for a mark behind continuous output.
	markLimit = 10 * time.Second
	// marksMissed is the number of overdue marks that are still recognised later.
	marksMissed = 8
)

// newMark returns a mark's text. No program can print a mark before its cell runs.
func newMark() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// cutter splits one of the interpreter's output streams at the marks that the driver writes at the end of a cell:
// output before a cell's mark is that cell's, output after it is the next one's.
type cutter struct {
	mu      sync.Mutex
	expect  [][]byte // marks not seen yet, the running cell's last
	held    []byte   // bytes that may begin a mark
	to      io.Writer
	running bool          // to belongs to a cell whose mark has not come
	reached chan struct{} // closed when the mark has come
	seen    time.Time     // when the last bytes came
	between []byte        // written while no cell ran
	dropped int64         // bytes that did not fit in between

	stop    chan struct{} // closed to resume the output that Spare declined; nil if output comes
	spared  chan struct{} // closed when output comes again
	settled bool          // output may not be declined: a cell begins, or has ended
}

// startCell connects the stream to a cell's writer, and writes the output since the last cell. A nil writer
// discards.
func (c *cutter) startCell(mark string, to io.Writer) {
	c.resumeOutput()
	c.mu.Lock()
	defer c.mu.Unlock()
	to = cmp.Or(to, io.Discard)
	if c.dropped > 0 {
		fmt.Fprintf(to, "[%d bytes written between cells are left out]\n", c.dropped)
	}
	if len(c.between) > 0 {
		to.Write(c.between)
	}
	c.between, c.dropped = nil, 0
	if len(c.expect) >= marksMissed {
		c.expect = slices.Delete(c.expect, 0, 1)
	}
	c.expect = append(c.expect, []byte("\x00"+mark+"\x00"))
	c.to, c.running, c.reached, c.settled = to, true, make(chan struct{}), false
}

// resumeOutput resumes declined output, and returns when it comes again.
func (c *cutter) resumeOutput() {
	c.mu.Lock()
	stop, spared := c.stop, c.spared
	c.stop, c.settled = nil, true
	c.mu.Unlock()
	if stop != nil {
		close(stop)
		<-spared
	}
}

// Spare implements [backends.Sparing]. A cell that has filled its writer needs no output before its mark; between
// cells, only the last bytes before the next cell are needed.
func (c *cutter) Spare() *backends.Skip {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &backends.Skip{Keep: betweenMax}
	count := func(n int64) {
		if n > 0 { // leaves betweenMax bytes for later output
			c.dropped += n + int64(len(c.between))
			c.between = nil
		}
	}
	writer, sparing := c.to.(backends.Sparing)
	switch {
	case c.settled || c.stop != nil:
		return nil
	case sparing:
		inner := writer.Spare()
		if inner == nil {
			return nil
		}
		k, count = &backends.Skip{Until: c.expect[len(c.expect)-1]}, inner.Done
	case c.to != nil || len(c.between) < betweenMax:
		return nil
	}
	stop, spared := make(chan struct{}), make(chan struct{})
	c.stop, c.spared, k.Stop = stop, spared, stop
	k.Done = func(n int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		count(n)
		if c.stop == stop {
			c.stop = nil
		}
		close(spared)
	}
	return k
}

// waitForMark returns when the cell's mark has come or is overdue.
func (c *cutter) waitForMark(dead <-chan struct{}) {
	select {
	case <-c.reached:
		return
	default:
	}
	defer c.resumeOutput() // so that the cell's count is complete
	began := time.Now()
	timer := time.NewTimer(markTimeout)
	defer timer.Stop()
	for {
		select {
		case <-c.reached:
			return
		case <-dead:
			return
		case <-timer.C:
		}
		c.mu.Lock()
		last, declined := c.seen, c.stop != nil
		c.mu.Unlock()
		if last.Before(began) {
			last = began
		}
		left := markTimeout - time.Since(last)
		if declined {
			left = markTimeout // the mark may be behind the resumed output
		}
		if left <= 0 || time.Since(began) > markLimit {
			return
		}
		timer.Reset(left)
	}
}

// endCell disconnects the cell's writer, which is not called afterwards.
func (c *cutter) endCell() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to, c.running, c.settled = nil, false, false
}

// Write receives the output of the interpreter and its children. It never fails, since the backend would discard
// the rest of the stream.
func (c *cutter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	c.seen = time.Now()
	if len(c.held) > 0 {
		p = append(c.held, p...)
		c.held = nil
	}
	begin, at := 0, 0
	for {
		i := bytes.IndexByte(p[at:], 0)
		if i < 0 {
			break
		}
		at += i
		switch mark, whole := c.match(p[at:]); {
		case whole:
			c.emit(p[begin:at])
			at += len(mark)
			begin = at
			c.markReached(mark)
		case mark != nil:
			c.emit(p[begin:at])
			c.held = slices.Clone(p[at:])
			return n, nil
		default:
			at++
		}
	}
	c.emit(p[begin:])
	return n, nil
}

// match returns the mark that p starts with, or a mark that starts with p.
func (c *cutter) match(p []byte) (mark []byte, whole bool) {
	for _, m := range c.expect {
		if bytes.HasPrefix(p, m) {
			return m, true
		}
		if len(p) < len(m) && bytes.HasPrefix(m, p) {
			return m, false
		}
	}
	return nil, false
}

// markReached records that a mark has come. An overdue mark ends no cell.
func (c *cutter) markReached(mark []byte) {
	i := slices.IndexFunc(c.expect, func(m []byte) bool { return bytes.Equal(m, mark) })
	if c.running && i == len(c.expect)-1 {
		c.to, c.running = nil, false
		close(c.reached)
	}
	c.expect = slices.Delete(c.expect, i, i+1)
}

// emit forwards output. Between cells, it keeps the latest bytes.
func (c *cutter) emit(p []byte) {
	if len(p) == 0 {
		return
	}
	if c.to != nil {
		c.to.Write(p)
		return
	}
	c.between = append(c.between, p...)
	if over := len(c.between) - betweenMax; over > 0 {
		c.dropped += int64(over)
		c.between = slices.Delete(c.between, 0, over)
	}
}

// release forwards held bytes at the end of the stream.
func (c *cutter) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.emit(c.held)
	c.held = nil
}

// betweenText returns the output since the last cell.
func (c *cutter) betweenText() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.between)
}
