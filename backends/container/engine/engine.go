// Package engine contains helpers for clients of engines: texts for people, a program search, pauses.
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

// Pause waits for d. It returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// FindProgram finds a program on path, which need not be this process's PATH; a name that contains directories is
// used as a path. The error is an [exec.ErrNotFound].
func FindProgram(path, name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // the current directory must not choose programs
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Longest bounds the bytes of a foreign text that people see.
const Longest = 2000

// OneLine converts an engine's text to one line without hidden characters: engines write for terminals.
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

// Shorten converts an engine's error to a line for people. It keeps the end, which names the cause: some errors
// print whole structures.
func Shorten(message string) string {
	const limit = 600
	if len(message) > limit {
		return "..." + OneLine(message[len(message)-limit:])
	}
	return OneLine(message)
}

// Tail keeps the end of the written text, which has the reason if a program fails. It may be used concurrently.
type Tail struct {
	mu   sync.Mutex
	last []byte
}

const (
	tailSize  = 2 << 10 // bytes kept
	tailLines = 4       // lines that String returns
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
