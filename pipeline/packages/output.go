package packages

import (
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

// screen shows a package manager's output, line by line, once its secrets are taken out. It may be used by both outputs
// at the same time.
type screen struct {
	mu     sync.Mutex
	show   func(line string) // may be nil
	redact func(line string) string
}

// cleanLine shows a line as valid UTF-8, and returns it.
func (s *screen) cleanLine(text string) string {
	text = s.redact(strings.TrimRight(strings.ToValidUTF8(text, "\uFFFD"), "\r"))
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
	for _, c := range b {
		if c == '\n' || len(o.part) == maxLine {
			o.add()
		}
		if c != '\n' {
			o.part = append(o.part, c)
		}
	}
	return len(b), nil
}

// add adds a line.
func (o *output) add() {
	o.text = append(o.text, o.screen.cleanLine(string(o.part))+"\n"...)
	o.part = o.part[:0]
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
		o.add()
	}
	if o.shorten(); o.cut == 0 {
		return string(o.text)
	}
	head, tail := string(o.text[:maxOutput/2]), string(o.text[maxOutput/2:])
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[%d bytes are left out]\n", o.cut) + strings.ToValidUTF8(tail, "")
}
