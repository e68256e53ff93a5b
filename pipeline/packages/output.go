package packages

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// maxOutput bounds the bytes that are kept of each of a package manager's two outputs, half from its beginning and half
// from its end, where the error is.
const maxOutput = 128 << 10

// maxLine bounds a line, in bytes; a longer one is broken.
const maxLine = 16 << 10

// screen receives a package manager's output, line by line.
type screen struct {
	mu       sync.Mutex
	show     func(line string) // one at a time; may be nil
	outwards func(line string) string
}

// line shows a line as valid UTF-8, after outwards, and returns it.
func (s *screen) line(text string) string {
	text = s.outwards(strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\r"))
	if s.show != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.show(text)
	}
	return text
}

// output keeps the beginning and the end of one stream.
type output struct {
	screen     *screen
	part       []byte // of a line
	head, tail []byte
	cut        int
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		room := maxLine - len(o.part)
		i := bytes.IndexByte(b[:min(len(b), room+1)], '\n')
		switch {
		case i >= 0:
			o.part = append(o.part, b[:i]...)
			b = b[i+1:]
			o.flush()
		case len(b) <= room:
			o.part = append(o.part, b...)
			b = nil
		default:
			o.part = append(o.part, b[:room]...)
			b = b[room:]
			o.flush()
		}
	}
	return n, nil
}

// flush ends the line in part, and cuts the oldest bytes of tail beyond maxOutput/2.
func (o *output) flush() {
	text := o.screen.line(string(o.part)) + "\n"
	o.part = o.part[:0]
	if room := maxOutput/2 - len(o.head); room >= len(text) && len(o.tail) == 0 {
		o.head = append(o.head, text...)
		return
	}
	o.tail = append(o.tail, text...)
	if over := len(o.tail) - maxOutput/2; over > 0 {
		o.cut += over
		o.tail = append(o.tail[:0], o.tail[over:]...)
	}
}

// String returns the kept output, with a note of the bytes that are left out.
func (o *output) String() string {
	if len(o.part) > 0 {
		o.flush()
	}
	if o.cut > 0 {
		return string(o.head) + fmt.Sprintf("[%d bytes are left out]\n", o.cut) + strings.ToValidUTF8(string(o.tail), "")
	}
	return string(o.head) + string(o.tail)
}
