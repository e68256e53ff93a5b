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

// jsonAdded returns data with an entry at path, and with the containers that it needs. In an entry that is there already, members that
// are not ours stay.
func jsonAdded(data []byte, path []string, entry pairs) ([]byte, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return fresh(data, path, entry), nil
	}
	at, rest, err := object(root, data, path)
	if err != nil {
		return nil, err
	}
	if rest != nil {
		return checkedJSON(inserted(data, root, at, pair{rest[0], wrap(rest[1:], entry)}))
	}
	for _, remote := range []string{"url", "httpUrl", "serverUrl"} {
		if _, m, _ := member(at.Value.(*hujson.Object), data, remote); m != nil {
			return nil, fmt.Errorf("the server %q there is one behind a URL: %w", path[len(path)-1], errForm)
		}
	}
	for _, p := range entry {
		if data, err = updated(data, path, p); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// fresh returns a file with the entry alone, after the comments of data, which has no value.
func fresh(data []byte, path []string, entry pairs) []byte {
	s := styleOf(data, nil)
	out := bytes.Clone(data)
	if text := bytes.TrimRight(out, " \t\r\n"); len(text) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, s.newline...)
	}
	return append(append(out, s.text(wrap(path, entry), "")...), s.newline...)
}

// updated sets a member of the entry at path, which is there.
func updated(data []byte, path []string, p pair) ([]byte, error) {
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	at, _, err := object(root, data, path)
	if err != nil {
		return nil, err
	}
	_, m, err := member(at.Value.(*hujson.Object), data, p.name)
	theirs := slices.Contains([]string{"env", "enabled", "timeout", "tools"}, p.name)
	switch {
	case err != nil:
		return nil, err
	case theirs, m != nil && same(m.Value, p.value), m == nil && p.name == "type": // what people set is theirs, and an entry goes without a type
		return data, nil
	case m == nil:
		return checkedJSON(inserted(data, root, at, p))
	}
	m.Value.Value = hujson.Literal(compact(p.value))
	return checkedJSON(root.Pack())
}

// same reports whether a value of the file equals want, whatever their spelling.
func same(v hujson.Value, want any) bool {
	v = v.Clone()
	v.Minimize()
	var a, b any
	return json.Unmarshal(v.Pack(), &a) == nil && json.Unmarshal(compact(want), &b) == nil && reflect.DeepEqual(a, b)
}

// splice returns a copy of data with data[from:to] replaced.
func splice(data []byte, from, to int, with []byte) []byte {
	out := make([]byte, 0, len(data)+len(with))
	return append(append(append(out, data[:from]...), with...), data[to:]...)
}

// checkedJSON returns an edited file, or an error if it can't be read: then the edit has a bug of ours.
func checkedJSON(after []byte) ([]byte, error) {
	if _, err := parse(after); err != nil {
		return nil, fmt.Errorf("the edited file would be broken (a bug of ours): %w", err)
	}
	return after, nil
}

// jsonFind returns how the entry at path starts its server. An entry of another form counts as there, without a command.
func jsonFind(data []byte, path []string) (s Server, there bool, err error) {
	root, err := parse(data)
	if err != nil || root == nil {
		return s, false, err
	}
	at, rest, err := object(root, data, path)
	if err != nil || rest != nil {
		return s, false, err
	}
	s.Name = path[len(path)-1]
	v := at.Clone()
	v.Minimize()
	var e struct{ Command, Args any }
	_ = json.Unmarshal(v.Pack(), &e) // whatever it is, its name is ours
	if words := append(texts(e.Command), texts(e.Args)...); len(words) > 0 {
		s.Command, s.Args = words[0], words[1:]
	}
	return s, true, nil
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

// jsonRemoved returns data without the entry at path, and without the objects around it that are empty then and are not in original,
// the content before the entry.
func jsonRemoved(data []byte, path []string, original []byte) ([]byte, error) {
	old, _ := parse(original)
	for n := len(path) - 1; n >= 0; n-- {
		root, err := parse(data)
		if err != nil || root == nil {
			return nil, errors.Join(err, errAbsent)
		}
		at, rest, err := object(root, data, path[:n])
		if err != nil || rest != nil {
			return nil, errors.Join(err, errAbsent)
		}
		obj := at.Value.(*hujson.Object)
		i, m, err := member(obj, data, path[n])
		if err != nil || m == nil {
			return nil, errors.Join(err, errAbsent)
		}
		if n < len(path)-1 && (had(old, path[:n+1]) || !empty(m)) {
			break
		}
		without(obj, i)
		if data, err = checkedJSON(root.Pack()); err != nil {
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
func empty(m *hujson.ObjectMember) bool {
	obj, ok := m.Value.Value.(*hujson.Object)
	return ok && len(obj.Members) == 0 && obj.AfterExtra.IsStandard()
}
