package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// table prints rows in columns, for people: a heading, then a line each, made to fit the terminal. What is
// no terminal gets everything whole. Cells are shown as visible shows them; callers hand over what they have.
//
// Rows are held until Close, so that columns are as wide as they need, unless live is set.
type table struct {
	w       io.Writer
	width   int // of the terminal that lines must fit, 0 is none
	columns []column
	live    bool // rows are printed as they come, in columns as wide as they usually need
	headed  bool // the heading was printed, or there is none
	rows    [][]string
}

// column is one column of a table.
type column struct {
	name  string // its heading
	right bool   // numbers end under each other, and are never half a number while anything else can give way
	whole bool   // it gives way after all others: ids, which somebody copies
	spare bool   // it is left out where there is no room; in a live table, where the terminal is narrow
	usual int    // how wide it is in a live table
}

// roomy is from how many columns on a terminal has room for all of ours.
const roomy = 130

// leastWide is what is left to a column that gives way.
const leastWide = 6

// gap is between columns.
const gap = "  "

func newTable(w io.Writer, columns ...column) *table {
	return &table{w: w, width: width(w), columns: columns}
}

// columnsOf are columns of text with these headings.
func columnsOf(names ...string) []column {
	all := make([]column, len(names))
	for i, name := range names {
		all[i].name = name
	}
	return all
}

// narrow reports whether the terminal has no room for all columns of a live table.
func (t *table) narrow() bool { return t.width > 0 && t.width < roomy }

// Row takes a row, with a cell for each column; those that are missing at its end are empty.
func (t *table) Row(cells ...string) error {
	row := make([]string, len(t.columns))
	for i := range min(len(row), len(cells)) {
		row[i] = visible(cells[i])
	}
	t.rows = append(t.rows, row)
	if !t.live {
		return nil
	}
	return t.flush()
}

// Close prints what is held. A table without rows prints nothing.
func (t *table) Close() error {
	if len(t.rows) == 0 {
		return nil
	}
	return t.flush()
}

func (t *table) flush() error {
	visibleColumns, widths := t.layout()
	if !t.headed {
		t.headed = true
		names := make([]string, len(t.columns))
		for i, c := range t.columns {
			names[i] = c.name
		}
		t.rows = slices.Insert(t.rows, 0, names)
	}
	var b strings.Builder
	for _, row := range t.rows {
		t.line(&b, row, visibleColumns, widths)
	}
	t.rows = nil
	_, err := io.WriteString(t.w, b.String())
	return err
}

// line writes a row. In a live table, what is longer than its column pushes the rest to the right, and the line
// is cut at its end.
func (t *table) line(b *strings.Builder, row []string, columns, widths []int) {
	var text strings.Builder
	for n, i := range columns {
		cell := row[i]
		if t.width > 0 && !t.live {
			cell = cut(cell, widths[n])
		}
		pad := strings.Repeat(" ", max(0, widths[n]-cells(cell)))
		switch {
		case t.columns[i].right:
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
	if t.width > 0 {
		whole = cut(whole, t.width)
	}
	fmt.Fprintln(b, whole)
}

// layout says which columns are shown, and how wide each is.
func (t *table) layout() (kept, widths []int) {
	natural := make([]int, len(t.columns))
	for i, c := range t.columns {
		if natural[i] = c.usual; !t.live {
			natural[i] = cells(c.name)
			for _, row := range t.rows {
				natural[i] = max(natural[i], cells(row[i]))
			}
		}
		if !t.live || !c.spare || !t.narrow() {
			kept = append(kept, i)
		}
	}
	for {
		widths = widths[:0]
		for _, i := range kept {
			widths = append(widths, natural[i])
		}
		if t.width == 0 || t.live || t.shrink(kept, widths, false) {
			return kept, widths
		}
		last := len(kept) - 1
		for last >= 0 && !t.columns[kept[last]].spare {
			last--
		}
		if last < 0 {
			t.shrink(kept, widths, true)
			return kept, widths
		}
		kept = slices.Delete(kept, last, last+1)
	}
}

// shrink takes from the widest columns until all fit, from what is to stay whole only if that is said. It
// reports whether they do.
func (t *table) shrink(columns, widths []int, all bool) bool {
	over := len(gap)*(len(widths)-1) - t.width
	for _, w := range widths {
		over += w
	}
	for ; over > 0; over-- {
		widest := -1
		for n, i := range columns {
			gives := all || !t.columns[i].whole && !t.columns[i].right
			if gives && widths[n] > leastWide && (widest < 0 || widths[n] > widths[widest]) {
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
