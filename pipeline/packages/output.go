package packages

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// maxOutput bounds the bytes that are kept of each of a package manager's two outputs, half from its beginning and half
// from its end, where the error is.
const maxOutput = 128 << 10

// maxLine bounds a line, in bytes; a longer one is broken.
const maxLine = 16 << 10

// screen shows a package manager's output, line by line, once its secrets are taken out. It may be used by both outputs at the same time.
type screen struct {
	mu       sync.Mutex
	show     func(line string) // may be nil
	outwards func(line string) string
}

// line shows a line as valid UTF-8, and returns it.
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
	screen *screen
	part   []byte // of a line
	text   []byte
	cut    int // bytes that are left out of the middle of text
}

// Write implements [io.Writer].
func (o *output) Write(b []byte) (int, error) {
	o.part = append(o.part, b...)
	for len(o.part) > 0 {
		end, next := maxLine, maxLine
		if i := bytes.IndexByte(o.part[:min(len(o.part), maxLine)], '\n'); i >= 0 {
			end, next = i, i+1
		} else if len(o.part) < maxLine {
			break
		}
		o.add(o.part[:end])
		o.part = o.part[next:]
	}
	return len(b), nil
}

// add adds a line.
func (o *output) add(line []byte) {
	o.text = append(o.text, o.screen.line(string(line))+"\n"...)
	if len(o.text) > 2*maxOutput { // seldom, as it copies
		o.shorten()
	}
}

// shorten leaves out the middle.
func (o *output) shorten() {
	if over := len(o.text) - maxOutput; over > 0 {
		o.text = slices.Delete(o.text, maxOutput/2, maxOutput/2+over)
		o.cut += over
	}
}

// String returns the text, with a note of what is left out. It is called at the end of the stream.
func (o *output) String() string {
	if len(o.part) > 0 {
		o.add(o.part)
		o.part = nil
	}
	if o.shorten(); o.cut == 0 {
		return string(o.text)
	}
	head, tail := string(o.text[:maxOutput/2]), string(o.text[maxOutput/2:])
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[%d bytes are left out]\n", o.cut) + strings.ToValidUTF8(tail, "")
}
