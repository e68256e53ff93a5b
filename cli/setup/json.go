package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// maxDepth bounds the nesting of a file: hujson reads it by recursion, which would exhaust the stack.
const maxDepth = 10_000

// parse reads JSON with comments and trailing commas; nil is a file that has no value at all.
func parse(data []byte) (*hujson.Value, error) {
	depth, deepest := 0, 0
	for _, c := range data { // also those in texts: it need not be exact
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	if deepest > maxDepth {
		return nil, fmt.Errorf("it is nested deeper than %d", maxDepth)
	}
	v, err := hujson.Parse(data)
	if err == nil {
		return &v, nil
	}
	// What is there may be comments only.
	if _, no := hujson.Parse(append(bytes.Clone(data), "\nnull"...)); no == nil {
		return nil, nil
	}
	return nil, fmt.Errorf("it is not valid JSON: %s", strings.TrimPrefix(err.Error(), "hujson: "))
}

// object returns the object at path, or the deepest object on the way to it; rest is the part of path that is missing. A value
// on the way that is no object is an error.
func object(root *hujson.Value, data []byte, path []string) (at *hujson.Value, rest []string, err error) {
	at = root
	for i := 0; ; i++ {
		obj, ok := at.Value.(*hujson.Object)
		if !ok {
			return nil, nil, fmt.Errorf("%s, where %s should be an object: %w", line(data, at.StartOffset), where(path[:i]), errForm)
		}
		if i == len(path) {
			return at, nil, nil
		}
		_, m, err := member(obj, data, path[i])
		if err != nil {
			return nil, nil, err
		}
		if m == nil {
			return at, path[i:], nil
		}
		at = &m.Value
	}
}

// member returns the member of a name and its index, or nil. A name that is there twice is an error: programs do not agree on
// which counts.
func member(obj *hujson.Object, data []byte, name string) (at int, found *hujson.ObjectMember, err error) {
	for i := range obj.Members {
		m := &obj.Members[i]
		if lit, ok := m.Name.Value.(hujson.Literal); !ok || lit.String() != name {
			continue
		}
		if found != nil {
			return 0, nil, fmt.Errorf("%s, where %q is a second time: %w", line(data, m.Name.StartOffset), name, errForm)
		}
		at, found = i, m
	}
	return at, found, nil
}

// where describes a path, for messages.
func where(path []string) string {
	if len(path) == 0 {
		return "the whole file"
	}
	return fmt.Sprintf("%q", strings.Join(path, "."))
}

// line describes the place of an offset, in lines and bytes from 1.
func line(data []byte, offset int) string {
	before := data[:offset]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, offset-bytes.LastIndexByte(before, '\n'))
}

// jsonAdded returns data with an entry, and with the containers that it needs. In an entry that is there already, members that
// are not ours stay.
func jsonAdded(data []byte, container []string, entry pairs, name string) ([]byte, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return fresh(data, container, entry, name), nil
	}
	at, rest, err := object(root, data, append(container[:len(container):len(container)], name))
	switch {
	case err != nil:
		return nil, err
	case rest == nil:
		return updated(data, container, entry, name)
	}
	value := any(entry)
	for i := len(rest) - 1; i > 0; i-- {
		value = pairs{{rest[i], value}}
	}
	return checkedJSON(data, inserted(data, root, at, pair{rest[0], value}))
}

// fresh returns a file with the entry alone, after the comments of data, which has no value.
func fresh(data []byte, container []string, entry pairs, name string) []byte {
	s := styleOf(data, nil)
	whole := any(pairs{{name, entry}})
	for i := len(container) - 1; i >= 0; i-- {
		whole = pairs{{container[i], whole}}
	}
	out := bytes.Clone(data)
	if text := bytes.TrimRight(out, " \t\r\n"); len(text) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, s.newline...)
	}
	return append(append(out, s.text(whole, "")...), s.newline...)
}

// updated sets the members of an entry that is there, one after the other.
func updated(data []byte, container []string, entry pairs, name string) ([]byte, error) {
	for _, remote := range []string{"url", "httpUrl", "serverUrl"} {
		if root, err := parse(data); err == nil && root.Find("/"+strings.Join(append(container[:len(container):len(container)], escape(name), remote), "/")) != nil {
			return nil, fmt.Errorf("the server %q there is one behind a URL: %w", name, errForm)
		}
	}
	for _, p := range entry {
		theirs := slices.Contains([]string{"env", "enabled", "timeout", "tools"}, p.name)
		root, err := parse(data)
		if err != nil {
			return nil, err
		}
		at, _, err := object(root, data, append(container[:len(container):len(container)], name))
		if err != nil {
			return nil, err
		}
		_, m, err := member(at.Value.(*hujson.Object), data, p.name)
		switch {
		case err != nil:
			return nil, err
		case m != nil && (same(m.Value, p.value) || theirs):
			continue // what people set there is theirs
		case m == nil && (theirs || p.name == "type"):
			continue // the entry is one that goes without
		case m == nil:
			data, err = checkedJSON(data, inserted(data, root, at, p))
		default:
			data, err = checkedJSON(data, splice(data, m.Value.StartOffset, m.Value.EndOffset, compact(p.value)))
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// same reports whether a value of the file equals want, whatever their spelling.
func same(v hujson.Value, want any) bool {
	v = v.Clone()
	v.Minimize()
	var a, b any
	return json.Unmarshal(v.Pack(), &a) == nil && json.Unmarshal(compact(want), &b) == nil && reflect.DeepEqual(a, b)
}

// escape returns a name as a part of a JSON pointer: RFC 6901.
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// splice returns a copy of data with data[from:to] replaced.
func splice(data []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(data)+len(with))
	return append(append(append(out, data[:from]...), with...), data[to:]...)
}

// checkedJSON returns after, or an error if it can't be read: then the edit has a bug of ours.
func checkedJSON(before, after []byte) ([]byte, error) {
	if _, err := parse(after); err != nil {
		return nil, fmt.Errorf("the edited file would be broken (a bug of ours): %w", err)
	}
	return after, nil
}

// jsonFind returns how the entry of a name starts its server. An entry of another form counts as there, without a command.
func jsonFind(data []byte, container []string, name string) (s Server, there bool, err error) {
	root, err := parse(data)
	if err != nil || root == nil {
		return s, false, err
	}
	at, rest, err := object(root, data, append(container[:len(container):len(container)], name))
	if err != nil || rest != nil {
		return s, false, err
	}
	v := at.Clone()
	v.Minimize()
	var e struct{ Command, Args any }
	if err := json.Unmarshal(v.Pack(), &e); err != nil {
		return s, true, nil // whatever it is, its name is ours
	}
	words := append(texts(e.Command), texts(e.Args)...)
	if len(words) == 0 {
		return Server{Name: name}, true, nil
	}
	return Server{Name: name, Command: words[0], Args: words[1:]}, true, nil
}

// texts returns a string, or the strings of a list, of which elements of other types are "".
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			s, _ := one.(string)
			all = append(all, s)
		}
	}
	return all
}

// errAbsent is the error of a removal of an entry that is not in the file.
var errAbsent = errors.New("there is no such entry")

// jsonRemoved returns data without an entry, and without the containers that are empty then and are not in original, the
// content before the entry.
func jsonRemoved(data []byte, container []string, name string, original []byte) ([]byte, error) {
	old, _ := parse(bytes.TrimPrefix(original, bom))
	for n := len(container); n >= 0; n-- {
		root, err := parse(data)
		if err != nil || root == nil {
			return nil, errors.Join(err, errAbsent)
		}
		at, rest, err := object(root, data, container[:n])
		if err != nil || rest != nil {
			return nil, errors.Join(err, errAbsent)
		}
		what := name
		if n < len(container) {
			if what = container[n]; had(old, container[:n+1]) || !empty(at, what) {
				break
			}
		}
		if data, err = checkedJSON(data, without(data, at.Value.(*hujson.Object), at, what)); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// had reports whether old has a value at path; it is true for an old that is not known.
func had(old *hujson.Value, path []string) bool {
	return old == nil || old.Find("/"+strings.Join(path, "/")) != nil
}

// empty reports whether the member is an object without members and comments.
func empty(at *hujson.Value, name string) bool {
	for _, m := range at.Value.(*hujson.Object).Members {
		obj, ok := m.Value.Value.(*hujson.Object)
		if lit, is := m.Name.Value.(hujson.Literal); ok && is && lit.String() == name {
			return len(obj.Members) == 0 && len(bytes.TrimSpace(obj.AfterExtra)) == 0
		}
	}
	return false
}
