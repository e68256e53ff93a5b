package files

import (
	"fmt"
	"slices"
	"strings"
)

const (
	around   = 3       // lines of context
	maxCells = 4 << 20 // of the table in which lines are compared
)

// Diff returns what changed from one text to another as a unified diff, "" if nothing did. Where too much did to
// be compared line by line, the whole block counts as replaced.
func Diff(name, before, after string) string {
	if before == after {
		return ""
	}
	a, b := lines(before), lines(after)
	head, tail := 0, 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	edits := compare(a[head:len(a)-tail], b[head:len(b)-tail])
	edits = slices.Concat(unchanged(a[:head]), edits, unchanged(a[len(a)-tail:]))
	return "--- a" + name + "\n+++ b" + name + "\n" + hunks(edits)
}

func lines(text string) []string {
	return slices.Collect(strings.Lines(text))
}

// edit is one line: unchanged (' '), removed ('-') or added ('+').
type edit struct {
	sign byte
	line string
}

// unchanged returns lines as edits that change nothing.
func unchanged(all []string) (list []edit) {
	for _, l := range all {
		list = append(list, edit{' ', l})
	}
	return list
}

// compare finds the longest common subsequence.
func compare(a, b []string) (list []edit) {
	width := len(b) + 1
	if (len(a)+1)*width <= maxCells {
		common := make([]int32, (len(a)+1)*width)
		for i := len(a) - 1; i >= 0; i-- {
			for j := len(b) - 1; j >= 0; j-- {
				if a[i] == b[j] {
					common[i*width+j] = common[(i+1)*width+j+1] + 1
				} else {
					common[i*width+j] = max(common[(i+1)*width+j], common[i*width+j+1])
				}
			}
		}
		for len(a) > 0 && len(b) > 0 {
			i, j := (len(common)/width)-1-len(a), width-1-len(b)
			switch {
			case a[0] == b[0]:
				list, a, b = append(list, edit{' ', a[0]}), a[1:], b[1:]
			case common[(i+1)*width+j] >= common[i*width+j+1]:
				list, a = append(list, edit{'-', a[0]}), a[1:]
			default:
				list, b = append(list, edit{'+', b[0]}), b[1:]
			}
		}
	}
	for _, l := range a {
		list = append(list, edit{'-', l})
	}
	for _, l := range b {
		list = append(list, edit{'+', l})
	}
	return list
}

// hunks writes the edits with some lines around them.
func hunks(edits []edit) string {
	adjacent := make([]bool, len(edits))
	for i, e := range edits {
		if e.sign != ' ' {
			for j := max(0, i-around); j <= min(len(edits)-1, i+around); j++ {
				adjacent[j] = true
			}
		}
	}
	var out strings.Builder
	was, is := 1, 1
	for i := 0; i < len(edits); i++ {
		end := i
		for end < len(edits) && adjacent[end] {
			end++
		}
		if end > i {
			gone, come := count(edits[i:end], '+'), count(edits[i:end], '-')
			fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(was, end-i-gone), span(is, end-i-come))
		}
		for ; i < end; i++ {
			out.WriteByte(edits[i].sign)
			out.WriteString(strings.TrimSuffix(edits[i].line, "\n") + "\n")
			if !strings.HasSuffix(edits[i].line, "\n") {
				out.WriteString("\\ No newline at end of file\n")
			}
			was, is = was+b2i(edits[i].sign != '+'), is+b2i(edits[i].sign != '-')
		}
		was, is = was+1, is+1 // the line that is left out
	}
	return out.String()
}

func count(edits []edit, sign byte) (n int) {
	for _, e := range edits {
		n += b2i(e.sign == sign)
	}
	return n
}

// span returns a range of lines in the format of diffs: an empty range is named after the line before it.
func span(from, n int) string {
	if n == 0 {
		from--
	}
	return fmt.Sprintf("%d,%d", from, n)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
