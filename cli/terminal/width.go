package terminal

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth" // which characters take two columns of a terminal, or none
	"golang.org/x/term"
)

// leastTerminal is the least width, in columns, that is believed: below it, the size counts as unknown.
const leastTerminal = 20

// Width returns the number of columns that lines to w may have, or 0 for any number: it is that of w's terminal, unless
// COLUMNS sets another, and 0 where w is no terminal or the size is not known.
func Width(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns >= leastTerminal && columns < 1<<16 {
		return columns
	}
	columns, _, err := term.GetSize(int(w.(interface{ Fd() uintptr }).Fd()))
	if err != nil || columns < leastTerminal {
		return 0
	}
	return columns
}

// Cut returns as much of text as fits into so many columns, with a mark where something is missing.
func Cut(text string, columns int) string {
	if Cells(text) <= columns {
		return text
	}
	const mark = "…"
	return strings.TrimRight(runewidth.Truncate(text, columns-Cells(mark), ""), " ") + mark
}

// Cells returns how many columns of a terminal a text takes.
func Cells(text string) int { return runewidth.StringWidth(text) }
