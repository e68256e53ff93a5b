package validate

import (
	"fmt"
	"slices"
	"strings"
)

// fix sets Fixed and Diff.
func (r *Report) fix(source string, found findings) {
	end := "\n"
	if n := strings.IndexByte(source, '\n'); n > 0 && source[n-1] == '\r' {
		end = "\r\n"
	}
	var statements []string
	for _, m := range found.Missing {
		statements = append(statements, m.Statement)
	}
	statements = together(statements)
	at := min(max(found.Insert.At, 0), len(source))
	text := strings.Join(statements, end) + end
	if found.Insert.Inline {
		text = strings.Join(statements, "; ") + "; "
		text = strings.ReplaceAll(text, ";; ", "; ")
	}
	r.Fixed = source[:at] + text + source[at:]
	r.Diff = diff(source, r.Fixed)
}

// together merges statements that import from the same module, and removes duplicates.
func together(statements []string) []string {
	var out []string
	from := map[string]int{}
	for _, s := range statements {
		head, names, tail := parts(s)
		i, seen := from[head]
		switch {
		case names == "" && slices.Contains(out, s):
		case names == "":
			out = append(out, s)
		case !seen:
			from[head] = len(out)
			out = append(out, s)
		default:
			_, before, _ := parts(out[i])
			if all := strings.Split(before, ", "); !slices.Contains(all, names) {
				out[i] = strings.Replace(s, names+tail, strings.Join(append(all, names), ", ")+tail, 1)
			}
		}
	}
	return out
}

// parts splits a statement that imports names: "from a import ", "b, c", "".
func parts(s string) (head, names, tail string) {
	if before, after, ok := strings.Cut(s, " import "); ok && strings.HasPrefix(s, "from ") {
		return before, after, ""
	}
	if before, after, ok := strings.Cut(s, "{ "); ok {
		names, tail, _ = strings.Cut(after, " }")
		return before + tail, names, " }" + tail
	}
	return s, "", ""
}

// diffContext is the number of unchanged lines that a diff shows around a change, as diff -u does.
const diffContext = 3

// diff returns the unified diff of two texts that differ in a single place.
func diff(before, after string) string {
	a, b := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after))
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	from, trailing := max(0, head-diffContext), min(tail, diffContext)
	var out strings.Builder
	out.WriteString("--- before\n+++ after\n")
	fmt.Fprintf(&out, "@@ -%s +%s @@\n", span(from, len(a)-tail+trailing-from), span(from, len(b)-tail+trailing-from))
	write := func(mark string, some []string) {
		for _, line := range some {
			out.WriteString(mark + line)
			if !strings.HasSuffix(line, "\n") {
				out.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	write(" ", a[from:head])
	write("-", a[head:len(a)-tail])
	write("+", b[head:len(b)-tail])
	write(" ", a[len(a)-tail:len(a)-tail+trailing])
	return out.String()
}

// span returns a range of lines in the format of diffs: an empty range is named after the line before it.
func span(from, count int) string {
	if count == 0 {
		return fmt.Sprintf("%d,0", from)
	}
	return fmt.Sprintf("%d,%d", from+1, count)
}
