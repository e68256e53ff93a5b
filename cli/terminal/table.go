package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table prints rows in columns, for people: a heading, then a line for each row, cut to fit the terminal. Other output
// is not cut. Row escapes cells, so that callers need not.
//
// Rows are buffered until Close, so that columns are as wide as they need, unless Live is set.
type Table struct {
	W       io.Writer
	Width   int // columns of the terminal; 0 is unlimited
	Columns []Column
	Empty   string // printed instead of an empty table
	Live    bool   // rows are printed as they come, in columns of their usual width
	headed  bool   // the heading was printed, or there is none
	rows    [][]string
}

// Column is a column of a table.
type Column struct {
	Name  string // heading
	Right bool   // numbers align at their ends, and are not cut while anything else can shrink
	Whole bool   // it shrinks after all others: ids, which people copy
	Spare bool   // it is left out if there is no room; in a live table, on a narrow terminal
	Usual int    // its width in a live table
}

// LiveWidth is the width of a terminal, in columns, from which all columns of our live tables fit.
const LiveWidth = 130

// minColumnWidth is the width, in columns of the terminal, below which no column is shrunk.
const minColumnWidth = 6

// gap separates columns.
const gap = "  "

// NewTable returns a table that fits the terminal behind w, if there is one.
func NewTable(w io.Writer, columns ...Column) *Table {
	return &Table{W: w, Width: Width(w), Columns: columns}
}

// Columns returns columns of text with these headings.
func Columns(names ...string) []Column {
	all := make([]Column, len(names))
	for i, name := range names {
		all[i].Name = name
	}
	return all
}

// Narrow reports whether the terminal has no room for all columns of a live table.
func (t *Table) Narrow() bool { return t.Width > 0 && t.Width < LiveWidth }

// Row adds a row, with a cell for each column; missing cells at its end are empty.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.Columns))
	for i := range min(len(row), len(cells)) {
		row[i] = Visible(cells[i])
	}
	t.rows = append(t.rows, row)
}

// Close prints the buffered rows. For an empty table it prints Empty, without a heading.
func (t *Table) Close() error {
	if len(t.rows) == 0 {
		if t.Empty == "" {
			return nil
		}
		_, err := fmt.Fprintln(t.W, t.Empty)
		return err
	}
	return t.Flush()
}

// Flush prints the rows so far, of a live table.
func (t *Table) Flush() error {
	visibleColumns, widths := t.layout()
	if !t.headed {
		t.headed = true
		names := make([]string, len(t.Columns))
		for i, c := range t.Columns {
			names[i] = c.Name
		}
		t.rows = slices.Insert(t.rows, 0, names)
	}
	var b strings.Builder
	for _, row := range t.rows {
		t.writeLine(&b, row, visibleColumns, widths)
	}
	t.rows = nil
	_, err := io.WriteString(t.W, b.String())
	return err
}

// writeLine writes a row. In a live table, a cell that is wider than its column pushes the rest to the right, and the line
// is cut at its end.
func (t *Table) writeLine(b *strings.Builder, row []string, columns, widths []int) {
	var text strings.Builder
	for n, i := range columns {
		cell := row[i]
		if t.Width > 0 && !t.Live {
			cell = Cut(cell, widths[n])
		}
		pad := strings.Repeat(" ", max(0, widths[n]-DisplayWidth(cell)))
		switch {
		case t.Columns[i].Right:
			cell = pad + cell
		case n < len(columns)-1:
			cell += pad
		}
		if n > 0 {
			text.WriteString(gap)
		}
		text.WriteString(cell)
	}
	whole := strings.TrimRight(text.String(), " ")
	if t.Width > 0 {
		whole = Cut(whole, t.Width)
	}
	fmt.Fprintln(b, whole)
}

// layout returns the indices of the visible columns, and their widths.
func (t *Table) layout() (columns, widths []int) {
	natural := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		if natural[i] = c.Usual; !t.Live {
			natural[i] = DisplayWidth(c.Name)
			for _, row := range t.rows {
				natural[i] = max(natural[i], DisplayWidth(row[i]))
			}
		}
		if !t.Live || !c.Spare || !t.Narrow() {
			columns = append(columns, i)
		}
	}
	for {
		widths = widths[:0]
		for _, i := range columns {
			widths = append(widths, natural[i])
		}
		if t.Width == 0 || t.Live || t.shrink(columns, widths, false) {
			return columns, widths
		}
		last := len(columns) - 1
		for last >= 0 && !t.Columns[columns[last]].Spare {
			last--
		}
		if last < 0 {
			t.shrink(columns, widths, true)
			return columns, widths
		}
		columns = slices.Delete(columns, last, last+1)
	}
}

// shrink narrows the widest columns until all fit, and those that are Whole or Right only if all is set. It reports
// whether they fit.
func (t *Table) shrink(columns, widths []int, all bool) bool {
	over := len(gap)*(len(widths)-1) - t.Width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := -1
		for n, i := range columns {
			gives := all || !t.Columns[i].Whole && !t.Columns[i].Right
			if gives && widths[n] > minColumnWidth && (widest < 0 || widths[n] > widths[widest]) {
				widest = n
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}
