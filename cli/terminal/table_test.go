package terminal

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	columns := []Column{{Name: "ID", Whole: true}, {Name: "SIZE", Right: true}, {Name: "WHAT"}, {Name: "SPARE", Spare: true}}
	rows := [][]string{
		{"01K9ZB5W7Q", "7", strings.Repeat("long ", 10), "x"},
		{"01K9ZB5W7R", "12345", "漢字漢字\x1b[2J", strings.Repeat("s", 20)},
		{"01K9ZB5W7S"},
	}
	tests := []struct {
		name  string
		width int
		want  string
	}{
		{"no terminal", 0, `ID           SIZE  WHAT                                                SPARE
01K9ZB5W7Q      7  long long long long long long long long long long   x
01K9ZB5W7R  12345  漢字漢字\x1b[2J                                     ssssssssssssssssssss
01K9ZB5W7S
`},
		{"wide enough", 100, `ID           SIZE  WHAT                                                SPARE
01K9ZB5W7Q      7  long long long long long long long long long long   x
01K9ZB5W7R  12345  漢字漢字\x1b[2J                                     ssssssssssssssssssss
01K9ZB5W7S
`},
		{"less", 60, `ID           SIZE  WHAT                 SPARE
01K9ZB5W7Q      7  long long long lon…  x
01K9ZB5W7R  12345  漢字漢字\x1b[2J      ssssssssssssssssssss
01K9ZB5W7S
`},
		{"narrow", 30, `ID           SIZE  WHAT
01K9ZB5W7Q      7  long long…
01K9ZB5W7R  12345  漢字漢字\x…
01K9ZB5W7S
`},
		{"ids give way last", 24, `ID          SIZE  WHAT
01K9ZB5W…      7  long…
01K9ZB5W…  12345  漢字…
01K9ZB5W…
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			out := &Table{W: &b, Width: test.width, Columns: columns}
			for _, row := range rows {
				out.Row(row...)
			}
			if b.Len() > 0 {
				t.Errorf("printed before its columns were known: %q", b.String())
			}
			if err := out.Close(); err != nil || b.String() != test.want {
				t.Errorf("got %v\n%s\nwant\n%s", err, b.String(), test.want)
			}
		})
	}
}

// TestTableOfNothing checks that an empty table has no heading.
func TestTableOfNothing(t *testing.T) {
	var b strings.Builder
	if err := NewTable(&b, Columns("A", "B")...).Close(); err != nil || b.Len() > 0 {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

// TestWidth checks that COLUMNS does not cut the output to a file or a pipe.
func TestWidth(t *testing.T) {
	t.Setenv("COLUMNS", "40")
	if got := Width(new(strings.Builder)); got != 0 {
		t.Errorf("%d columns where there is no terminal", got)
	}
}
