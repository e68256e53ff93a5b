package setup

import (
	"bytes"
	"cmp"
	"os"
	"runtime"

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

// inserted returns data with a member added at the end of an object.
func inserted(data []byte, root, at *hujson.Value, p pair) []byte {
	obj, s := at.Value.(*hujson.Object), styleOf(data, root)
	closing := at.EndOffset - 1
	outer, _ := indentAt(data, at.StartOffset)
	if len(obj.Members) == 0 {
		return filled(data, at, s, string(outer), p)
	}
	last := obj.Members[len(obj.Members)-1].Value
	trailing := last.AfterExtra != nil
	if !bytes.Contains(data[at.StartOffset:at.EndOffset], []byte("\n")) {
		return inLine(data, last, closing, trailing, p)
	}
	indent, own := indentAt(data, obj.Members[len(obj.Members)-1].Name.StartOffset)
	if !own {
		indent = []byte(string(outer) + s.unit)
	}
	one := append([]byte(s.newline), indent...)
	one = append(append(append(one, compact(p.name)...), ": "...), s.text(p.value, string(indent))...)
	if trailing {
		one = append(one, ',')
	}
	// What is between the last value and the end, such as a comment, stays where it is.
	tail := bytes.TrimRight(data[last.EndOffset:closing], " \t\r\n")
	end := last.EndOffset + len(tail)
	if end == closing || !bytes.Contains(data[end:closing], []byte("\n")) { // the end is on the last member's line
		one = append(append(one, s.newline...), outer...)
	}
	out := splice(data, end, end, one)
	if !trailing {
		out = splice(out, last.EndOffset, last.EndOffset, []byte(","))
	}
	return out
}

// filled returns data with a member added to an object that has none.
func filled(data []byte, at *hujson.Value, s style, outer string, p pair) []byte {
	indent := outer + s.unit
	inner := bytes.TrimRight(data[at.StartOffset+1:at.EndOffset-1], " \t\r\n")
	one := []byte(s.newline + indent)
	one = append(append(append(one, compact(p.name)...), ": "...), s.text(p.value, indent)...)
	one = append(one, s.newline+outer...)
	return splice(data, at.StartOffset+1+len(inner), at.EndOffset-1, one)
}

// inLine returns data with a member added to an object on one line, which can't hold a comment that ends with the line.
func inLine(data []byte, last hujson.Value, closing int, trailing bool, p pair) []byte {
	one := append(append(compact(p.name), ": "...), compact(p.value)...)
	if trailing {
		end := last.EndOffset + len(last.AfterExtra) + 1
		return splice(data, end, end, append(append([]byte(" "), one...), ','))
	}
	return splice(data, last.EndOffset, last.EndOffset, append([]byte(", "), one...))
}

// without returns data without a member, its comma and the white space before it.
func without(data []byte, obj *hujson.Object, at *hujson.Value, name string) []byte {
	i, m, err := member(obj, data, name)
	if err != nil || m == nil {
		return data
	}
	from := len(bytes.TrimRight(data[:m.Name.StartOffset], " \t\r\n"))
	out := cut(data, obj, at, i, from)
	if _, err := parse(out); err != nil { // what follows is in a comment of the line before now
		return cut(data, obj, at, i, m.Name.StartOffset)
	}
	return out
}

// cut returns data without the i-th member, from an offset at or before its name on, and without one comma.
func cut(data []byte, obj *hujson.Object, at *hujson.Value, i, from int) []byte {
	m := obj.Members[i]
	to, last := m.Value.EndOffset, i == len(obj.Members)-1
	comma := to + len(m.Value.AfterExtra)
	switch {
	case last && m.Value.AfterExtra == nil && i > 0:
		// The comma before it goes, too.
		before := obj.Members[i-1].Value
		comma = before.EndOffset + len(before.AfterExtra)
		data = splice(data, from, to, nil)
		return splice(data, comma, comma+1, nil)
	case last && m.Value.AfterExtra == nil:
	case len(bytes.TrimSpace(m.Value.AfterExtra)) == 0:
		to = comma + 1
	default: // a comment stands between them
		data = splice(data, comma, comma+1, nil)
	}
	return tidied(splice(data, from, to, nil), at.StartOffset)
}

// tidied returns data with {} for the object at start if only white space is in it.
func tidied(data []byte, start int) []byte {
	rest := bytes.TrimLeft(data[start+1:], " \t\r\n")
	if len(rest) > 0 && rest[0] == '}' {
		return splice(data, start+1, len(data)-len(rest), nil)
	}
	return data
}

// Here returns this machine, with an empty Home if that is not known.
func Here() Place {
	home, _ := os.UserHomeDir() // "" is said where it matters
	return Place{OS: runtime.GOOS, Home: home, Env: os.Getenv}
}
