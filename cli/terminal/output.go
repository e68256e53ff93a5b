// Package terminal prints for people: tables that fit the window, folded help, and program output without harmful
// control sequences.
package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
)

// Count returns a number with its noun: "1 row", "2 rows".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// WriteJSON writes v as one line of JSON, in which safetext.JSON escapes hidden characters.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(safetext.JSON(b.Bytes()))
	return err
}

// Fact writes one indented line with a name and its value.
func Fact(w io.Writer, key, value string) {
	fmt.Fprintf(w, "  %-17s %s\n", Visible(key), Visible(value))
}

// JSONLines writes lines of JSON to a terminal: each Write is one line, whose value stays the same.
type JSONLines struct{ W io.Writer }

// Write implements [io.Writer]. It counts the bytes of line, not of the escaped ones.
func (s JSONLines) Write(line []byte) (int, error) {
	if _, err := s.W.Write(safetext.JSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Visible returns s as one line with control characters escaped: see safetext.Line.
func Visible(s string) string { return safetext.Line(s) }

// VisibleLines returns the lines of a text as Visible formats them, each with a line end.
func VisibleLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(Visible(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

// ShellWord quotes a word for a shell, in a form that is safe to print.
func ShellWord(s string) string {
	s = Visible(s)
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// IsInteractive reports whether a reader is a terminal, at which a person can type.
func IsInteractive(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && IsTerminal(f)
}

// Ago returns a duration before now in words, in its largest unit: "3 hours ago"; below a minute, "just now".
func Ago(d time.Duration) string {
	if d < time.Minute {
		return "just now"
	}
	return Span(d) + " ago"
}

// Span returns a duration in its largest unit, rounded down: "3 hours"; below a minute, "new".
func Span(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int(d / unit.size); n > 0 {
			return Count(n, unit.name)
		}
	}
	return "new"
}
