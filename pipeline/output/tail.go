package output

import (
	"strings"
	"sync"
)

// Tail keeps the last bytes written to it.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// maxTail bounds the displayed output of a background run, in bytes.
const maxTail = 4 << 10

// Write implements [io.Writer].
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-maxTail):]...)
	t.text = t.text[max(0, len(t.text)-maxTail):]
	return len(b), nil
}

// String returns the last output, from its first complete character.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "")
}
