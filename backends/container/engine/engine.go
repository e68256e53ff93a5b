// Package engine has what clients of engines need: texts for people, programs to find, pauses.
package engine

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Pause waits for d, and reports whether ctx has not ended meanwhile.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// FindProgram finds a program on a PATH that need not be ours; a name with directories is taken as a path. The error is an
// [exec.ErrNotFound].
func FindProgram(path, name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // programs in the current directory are nobody's choice
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Longest is how many bytes of a text of others people are shown.
const Longest = 2000

// OneLine makes one line of an engine's text, without its hidden characters: engines write for terminals.
func OneLine(s string) string {
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

// Shorten makes a line for people of an engine's error. It keeps the end, where the cause is: some errors print whole
// structures.
func Shorten(message string) string {
	const limit = 600
	if len(message) > limit {
		return "..." + OneLine(message[len(message)-limit:])
	}
	return OneLine(message)
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
		lines[i] = OneLine(lines[i])
	}
	return strings.Join(lines, "; ")
}
