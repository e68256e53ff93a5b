package console

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Bounds of the history.
const (
	maxHistory  = 1000     // lines
	maxRecalled = 1 << 20  // bytes of the file that are read
	maxTyped    = 16 << 10 // bytes of a line; longer ones are not stored
)

// history holds the lines typed before, for the arrow keys, in a file that only its user can read. Secrets in code
// can't be recognised, so a piece of code whose first line begins with a space is not stored.
type history struct {
	file    string   // "" stores nothing beyond this process
	lines   []string // newest last
	private bool     // the current piece of code is not stored
}

// OpenHistory reads the file at path if it exists. With an unusable file it returns an error and a history without a
// file.
func OpenHistory(path string) (*history, error) {
	h := &history{}
	if path == "" {
		return h, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return h, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		h.file = path
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return h, errors.Join(err, fs.ErrInvalid)
	}
	from := max(0, info.Size()-maxRecalled)
	text, err := io.ReadAll(io.NewSectionReader(f, from, maxRecalled))
	if err != nil {
		return h, err
	}
	if _, rest, ok := bytes.Cut(text, []byte("\n")); ok && from > 0 {
		text = rest // the first line is incomplete
	}
	h.lines = strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	h.file = path
	long := len(h.lines) > 2*maxHistory || from > 0
	if h.trim(); long { // lines that another process adds meanwhile are lost
		err = statefile.Replace(h.file, "history", []byte(strings.Join(h.lines, "\n")+"\n"), 0o600)
	}
	return h, err
}

// trim keeps the newest maxHistory lines.
func (h *history) trim() { h.lines = h.lines[max(0, len(h.lines)-maxHistory):] }

// startPiece decides by the first line of a piece of code whether its lines are stored: not if it begins with a space.
func (h *history) startPiece(line string) { h.private = strings.HasPrefix(line, " ") }

// Add implements term.History and does nothing: addLine stores the line once its piece of code is known.
func (h *history) Add(string) {}

// addLine adds a line to the history and its file. It skips empty, long and private lines, and repetitions of the last
// line.
func (h *history) addLine(line string) {
	n := len(h.lines)
	if h.private || strings.TrimSpace(line) == "" || len(line) > maxTyped || strings.ContainsAny(line, "\n\r") || n > 0 &&
		h.lines[n-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > 2*maxHistory {
		h.trim()
	}
	if h.file == "" {
		return
	}
	f, err := os.OpenFile(h.file, os.O_WRONLY|os.O_APPEND|os.O_CREATE|noFollow, 0o600)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		h.file = "" // a full disk must not disturb the session
	}
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }
