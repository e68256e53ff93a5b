package setup

import (
	"bytes"
	"cmp"
	"os"
	"runtime"
	"slices"

	"github.com/tailscale/hujson"
)

// styleOf returns the layout of a file: its line ends, by the first line, and the indentation of a level, by the first member of
// root. Without these they are a newline and two blanks.
func styleOf(data []byte, root *hujson.Value) style {
	s := style{"\n", "  "}
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		s.newline = "\r\n"
	}
	if root == nil {
		return s
	}
	if obj, ok := root.Value.(*hujson.Object); ok && len(obj.Members) > 0 {
		if indent, own := indentAt(data, obj.Members[0].Name.StartOffset); own && len(indent) > 0 {
			outer, _ := indentAt(data, root.StartOffset)
			s.unit = cmp.Or(string(bytes.TrimPrefix(indent, outer)), s.unit)
		}
	}
	return s
}

// indentAt returns the white space at the beginning of an offset's line, and whether only that is before the offset.
func indentAt(data []byte, offset int) (indent []byte, own bool) {
	start := bytes.LastIndexByte(data[:offset], '\n') + 1
	text := data[start:offset]
	rest := bytes.TrimLeft(text, " \t")
	return text[:len(text)-len(rest)], len(rest) == 0
}

// inserted returns a file with a member added at the end of its object at, laid out as the others are. What is between the last value
// and the end, such as a comment, stays where it is.
func inserted(data []byte, root, at *hujson.Value, p pair) []byte {
	obj, s, n := at.Value.(*hujson.Object), styleOf(data, root), len(at.Value.(*hujson.Object).Members)
	name, value := hujson.Value{Value: hujson.Literal(compact(p.name))}, hujson.Value{BeforeExtra: hujson.Extra(" ")}
	if n > 0 && obj.Members[n-1].Value.AfterExtra != nil {
		value.AfterExtra = hujson.Extra{} // a trailing comma
	}
	if n > 0 && !bytes.Contains(data[at.StartOffset:at.EndOffset], []byte("\n")) { // on one line, it can't hold a comment that ends with the line
		name.BeforeExtra, value.Value = hujson.Extra(" "), hujson.Literal(compact(p.value))
	} else {
		outer, _ := indentAt(data, at.StartOffset)
		indent := string(outer) + s.unit
		if n > 0 {
			if theirs, own := indentAt(data, obj.Members[n-1].Name.StartOffset); own {
				indent = string(theirs)
			}
		}
		comments := bytes.TrimRight(obj.AfterExtra, " \t\r\n")
		end := obj.AfterExtra[len(comments):]
		if n == 0 {
			end = nil
		}
		if !bytes.Contains(end, []byte("\n")) { // the end is on the last member's line
			end = slices.Concat([]byte(s.newline), outer, end)
		}
		name.BeforeExtra, value.Value = slices.Concat(comments, []byte(s.newline+indent)), hujson.Literal(s.text(p.value, indent))
		obj.AfterExtra = end
	}
	obj.Members = append(obj.Members, hujson.ObjectMember{Name: name, Value: value})
	return root.Pack()
}

// without removes a member, its comma and the white space before it. Comments stay.
func without(obj *hujson.Object, i int) {
	m, last := obj.Members[i], i == len(obj.Members)-1
	next := &obj.AfterExtra // what follows it
	if !last {
		next = &obj.Members[i+1].Name.BeforeExtra
	}
	after := slices.Concat(m.Value.AfterExtra, *next)
	if m.Value.AfterExtra.IsStandard() {
		after = *next
	}
	joined := slices.Concat(bytes.TrimRight(m.Name.BeforeExtra, " \t\r\n"), after)
	if _, err := hujson.Parse(slices.Concat(joined, []byte("null"))); err != nil { // what follows would be in a comment of the line before
		joined = slices.Concat(m.Name.BeforeExtra, after)
	}
	if last && i > 0 {
		if before := &obj.Members[i-1].Value; m.Value.AfterExtra == nil { // its comma goes, too
			joined, before.AfterExtra = slices.Concat(before.AfterExtra, joined), nil
		} else {
			before.AfterExtra = append(hujson.Extra{}, before.AfterExtra...) // its comma is a trailing one now
		}
	}
	*next = joined
	if obj.Members = slices.Delete(obj.Members, i, i+1); len(obj.Members) == 0 && obj.AfterExtra.IsStandard() {
		obj.AfterExtra = nil
	}
}

// Here returns this machine, with an empty Home if that is not known.
func Here() Place {
	home, _ := os.UserHomeDir() // "" is said where it matters
	return Place{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}
