package validate

import (
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/validate/diff"
)

// addImports sets Fixed and Diff.
func (r *Report) addImports(source string, found findings) {
	end := "\n"
	if n := strings.IndexByte(source, '\n'); n > 0 && source[n-1] == '\r' {
		end = "\r\n"
	}
	at := min(max(found.Insert, 0), len(source))
	if before := source[:at]; before != "" && before != "\ufeff" && !strings.HasSuffix(before, "\n") {
		end = "; " // other statements precede it on its line
	}
	var statements []string
	for _, m := range found.Missing {
		if s := m.Statement + end; !slices.Contains(statements, s) {
			statements = append(statements, s)
		}
	}
	r.Fixed = source[:at] + strings.ReplaceAll(strings.Join(statements, ""), ";;", ";") + source[at:]
	r.Diff = diff.Unified("before", source, "after", r.Fixed)
}
