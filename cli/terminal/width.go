package terminal

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/mattn/go-runewidth" // width of characters in columns: 0, 1 or 2
	"golang.org/x/term"
)

// minTerminalWidth is the least plausible width, in columns: below it, the width counts as unknown.
const minTerminalWidth = 20

// Width returns the number of columns for lines to w, or 0 for any number: that of w's terminal, unless COLUMNS
// overrides it, and 0 if w is not a terminal or its size is unknown.
func Width(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns >= minTerminalWidth && columns < 1<<16 {
		return columns
	}
	columns, _, err := term.GetSize(int(w.(interface{ Fd() uintptr }).Fd()))
	if err != nil || columns < minTerminalWidth {
		return 0
	}
	return columns
}

// Cut returns the part of text that fits into that many columns, with a mark where it was cut.
func Cut(text string, columns int) string {
	if DisplayWidth(text) <= columns {
		return text
	}
	const mark = "…"
	return strings.TrimRight(runewidth.Truncate(text, columns-DisplayWidth(mark), ""), " ") + mark
}

// DisplayWidth returns the width of a text in columns of a terminal.
func DisplayWidth(text string) int { return runewidth.StringWidth(text) }
