package validate

import (
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/diff"
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
	r.Diff = diff.Unified("before", source, "after", r.Fixed)
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
