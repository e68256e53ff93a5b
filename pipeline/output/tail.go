package output

import (
	"strings"
	"sync"
)

// Tail keeps the last bytes of what is written to it.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// maxTail is how much of its output a run in the background shows, in bytes.
const maxTail = 4 << 10

// Write implements [io.Writer].
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-maxTail):]...)
	t.text = t.text[max(0, len(t.text)-maxTail):]
	return len(b), nil
}

// String returns the last output, from its first whole character on.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "")
}
