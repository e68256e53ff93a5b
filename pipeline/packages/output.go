package packages

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// maxOutput bounds the stored bytes of each output of a package manager: half from its beginning and half from its
// end, which has the error.
const maxOutput = 128 << 10

// maxLine bounds a line, in bytes; longer ones are broken.
const maxLine = 16 << 10

// screen shows a package manager's output line by line, redacted. Both outputs may use it concurrently.
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
	cut    int // bytes cut from the middle of text
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
	if len(o.text) > 2*maxOutput { // rarely, because it copies
		o.shorten()
	}
}

// shorten cuts the middle.
func (o *output) shorten() {
	if over := len(o.text) - maxOutput; over > 0 {
		o.text = slices.Delete(o.text, maxOutput/2, maxOutput/2+over)
		o.cut += over
	}
}

// String returns the text, with a note about the cut part. Call it at the end of the stream.
func (o *output) String() string {
	if len(o.part) > 0 {
		o.add()
	}
	if o.shorten(); o.cut == 0 {
		return string(o.text)
	}
	head, tail := string(o.text[:maxOutput/2]), string(o.text[maxOutput/2:])
	return strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[%d bytes are omitted]\n", o.cut) + strings.ToValidUTF8(tail, "")
}
