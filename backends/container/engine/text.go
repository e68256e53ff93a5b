package engine

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Longest is how many bytes of a text of others people are shown.
const Longest = 2000

// Plain makes one line of an engine's text, without its hidden characters: what an engine writes is meant for a terminal.
func Plain(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case safetext.Hidden(r), r == utf8.RuneError:
			return -1
		}
		return r
	}, s[:min(len(s), Longest)]))
}

// Tail keeps the end of the text that is written to it, which has the reason when a program fails. It may be used
// concurrently.
type Tail struct {
	mu   sync.Mutex
	last []byte
}

const (
	tailSize  = 2 << 10 // bytes that are kept
	tailLines = 4       // that String returns
)

// Write implements [io.Writer].
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b[max(0, len(b)-tailSize):]...)
	if over := len(t.last) - tailSize; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(b), nil
}

// String returns the last lines, joined into one line for people.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.last)), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	for i := range lines {
		lines[i] = Plain(lines[i])
	}
	return strings.Join(lines, "; ")
}
