package validate

import (
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
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

// importedName matches a statement that imports a name from a module, without those that import the module.
var importedName = lazy.Regexp(`^(from \S+ import |.*\{ )(\w+)( \}.*)?$`)

// together merges statements that import from the same module, and removes duplicates.
func together(statements []string) []string {
	var order []string
	names := map[string][]string{} // by the statement with %s for the names
	for _, s := range statements {
		form, name := s, ""
		if m := importedName().FindStringSubmatch(s); m != nil {
			form, name = m[1]+"%s"+m[3], m[2]
		}
		if names[form] == nil {
			order = append(order, form)
		}
		if !slices.Contains(names[form], name) {
			names[form] = append(names[form], name)
		}
	}
	for i, form := range order {
		order[i] = strings.Replace(form, "%s", strings.Join(names[form], ", "), 1)
	}
	return order
}
