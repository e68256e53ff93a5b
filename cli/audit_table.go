package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
)

// tableWriter prints one line a row, for people. Columns have fixed widths, because rows are
// printed as they come.
type tableWriter struct {
	w      io.Writer
	width  int // of the terminal that lines must fit, 0 is none
	headed bool
}

// roomy is from how many columns on a terminal has room for all of ours.
const roomy = 130

func (t *tableWriter) Row(r audit.Row) error {
	if !t.headed {
		t.headed = true
		if err := t.line("ROW", "TIME", "KIND", "NAMESPACE", "RUN", "WHAT"); err != nil {
			return err
		}
	}
	when := r.Time.Local().Format(time.DateTime)
	if t.narrow() {
		when = r.Time.Local().Format("01-02 15:04:05")
	}
	return t.line(strconv.FormatInt(r.Seq, 10), when, visible(r.Kind), visible(r.Namespace), visible(r.Run), visible(facts.Gist(r)))
}

func (t *tableWriter) narrow() bool { return t.width > 0 && t.width < roomy }

// line prints a line. A terminal that is narrow is not shown the run, which the row's number leads to.
func (t *tableWriter) line(seq, when, kind, namespace, run, what string) error {
	text := fmt.Sprintf("%6s  %-19s  %-20s  %-10s  %-26s  %s", seq, when, kind, namespace, run, what)
	if t.narrow() {
		text = fmt.Sprintf("%5s  %-14s  %-19s  %-9s  %s", seq, when, kind, namespace, what)
	}
	if t.width > 0 {
		text = cut(text, t.width)
	}
	_, err := fmt.Fprintln(t.w, text)
	return err
}

func (t *tableWriter) Close() error { return nil }

// width is how many columns the terminal has that w is, or 0.
func width(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	columns, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil || columns < 20 { // a terminal that does not know its size
		return 0
	}
	return columns
}

// cut returns as much of text as fits into so many columns, with a mark where something is missing.
func cut(text string, columns int) string {
	used, end := 0, 0 // end is where the mark would still fit
	for i, r := range text {
		if used <= columns-1 {
			end = i
		}
		if used += cells(r); used > columns {
			return strings.TrimRight(text[:end], " ") + "…"
		}
	}
	return text
}

// cells is how many columns a terminal gives to a character, or one more.
func cells(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi) || r >= 0xff00 && r < 0xffe7 || r >= 0x3000 && r < 0x3100 || r >= 0x1f000:
		return 2
	}
	return 1
}
