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
	"go.yaml.in/yaml/v3"
)

// maxParts bounds the objects and lists of a file: hujson parses them by recursion, which would exhaust the stack.
const maxParts = 1_000_000

// entry is a server in a client's file.
type entry struct {
	Type    string    `json:"type,omitempty"`
	Command any       `json:"command"`
	Args    []string  `json:"args,omitempty"`
	Enabled bool      `json:"enabled,omitempty"`
	Timeout int       `json:"timeout,omitempty"` // in seconds, for a tool
	Tools   []string  `json:"tools,omitempty"`   // that may be used
	Env     *struct{} `json:"env,omitempty"`
}

// entryFor returns the client's entry for s.
func (c Client) entryFor(all map[string]any, s Server) entry {
	e := c.like
	e.Command, e.Args = s.Command, s.Args
	if c.oneList {
		e.Command, e.Args = append([]string{s.Command}, s.Args...), nil
		e.Enabled = len(c.keys(all, s.Name)) == 2
	}
	return e
}

// keys returns the path to a server's entry in a file. opencode's second version has one more level, and no "enabled".
func (c Client) keys(all map[string]any, name string) []string {
	if c.oneList {
		servers, _ := valueAt(all, []string{"mcp", "servers"})
		if m, ok := servers.(map[string]any); ok && m["type"] == nil && m["command"] == nil && m["enabled"] == nil {
			return []string{"mcp", "servers", name}
		}
	}
	return []string{c.servers, name}
}

// valueAt returns the value at keys.
func valueAt(all map[string]any, keys []string) (v any, there bool) {
	v = all
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v, there = m[key]
	}
	return v, there
}

// read returns the entry of a name in a decoded file, as entry does.
func (c Client) read(all map[string]any, name string) (s Server, there bool) {
	v, there := valueAt(all, c.keys(all, name))
	e, _ := v.(map[string]any)
	if words := slices.Concat(stringsOf(e["command"]), stringsOf(e["cmd"]), stringsOf(e["args"])); len(words) > 0 {
		s = Server{name, words[0], words[1:]}
	}
	return s, there
}

// stringsOf returns a string, or the strings of a list, with "" for elements of other types.
func stringsOf(v any) (all []string) {
	list, ok := v.([]any)
	if !ok && v != nil {
		list = []any{v}
	}
	for _, one := range list {
		s, _ := one.(string)
		all = append(all, s)
	}
	return all
}

// parseJSON parses JSON with comments and trailing commas. A file without a value is an empty object.
func parseJSON(data []byte) (v hujson.Value, err error) {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > maxParts {
		return v, fmt.Errorf("it has more than %d objects and lists", maxParts)
	}
	if v, err = hujson.Parse(bytes.Clone(data)); err != nil { // v refers to parts of its input
		var no error
		if v, no = hujson.Parse(append(bytes.Clone(data), "\n{}\n"...)); no != nil {
			return v, fmt.Errorf("it is not valid JSON: %s", strings.TrimPrefix(err.Error(), "hujson: "))
		}
	}
	if v.Value.Kind() != '{' {
		return v, fmt.Errorf("the whole file should be an object: %w", errForm)
	}
	return v, nil
}

// decode returns the value of a file, as programs read it.
func (c Client) decode(data []byte) (all map[string]any, err error) {
	if c.snippet == inYAML {
		return all, yaml.Unmarshal(data, &all)
	}
	v, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	v.Standardize()
	d := json.NewDecoder(bytes.NewReader(v.Pack()))
	d.UseNumber()
	return all, d.Decode(&all)
}

// edit returns data with the entry of s, or without it. In an existing entry, only the program and its arguments
// change. If the meaning of anything else changes, it returns an error: a bug here or in hujson.
func (c Client) edit(data []byte, s Server, remove bool) ([]byte, error) {
	before, err := c.decode(data)
	if err != nil {
		return nil, err
	}
	v, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	keys, e := c.keys(before, s.Name), c.entryFor(before, s)
	switch {
	case remove:
		err = v.Patch(patch("remove", keys, "null"))
	case v.Find(pointer(keys)) != nil:
		if err = setValue(&v, append(keys, "command"), e.Command); err == nil && !c.oneList {
			err = setValue(&v, append(keys, "args"), e.Args)
		}
	default:
		var value any = e
		for ; len(keys) > 1 && v.Find(pointer(keys[:len(keys)-1])) == nil; keys = keys[:len(keys)-1] {
			value = map[string]any{keys[len(keys)-1]: value}
		}
		err = setValue(&v, keys, value)
	}
	if err != nil {
		return nil, errors.Join(errForm, err)
	}
	out := v.Pack()
	after, err := c.decode(out)
	keys = c.keys(before, s.Name)
	if now, there := c.read(after, s.Name); err != nil || there == remove || there && !now.equals(s) ||
		!reflect.DeepEqual(withoutPath(before, keys), withoutPath(after, keys)) {
		return nil, fmt.Errorf("something is there twice, or the edited file would mean something else: %w", errors.Join(errForm, err))
	}
	return out, nil
}

// withoutPath removes the value at path, and the objects around it that become empty.
func withoutPath(all map[string]any, path []string) map[string]any {
	if inner, ok := all[path[0]].(map[string]any); len(path) == 1 || ok && len(withoutPath(inner, path[1:])) == 0 {
		delete(all, path[0])
	}
	return all
}

// pointer returns the JSON pointer of keys, which contain neither / nor ~.
func pointer(keys []string) string { return strings.Join(append([]string{""}, keys...), "/") }

// patch returns a JSON patch of one operation.
func patch(op string, keys []string, value string) []byte {
	return fmt.Appendf(nil, `[{"op": %q, "path": %q, "value": %s}]`, op, pointer(keys), value)
}

// indentation is the indentation of a level, as most clients write it.
const indentation = "  "

// encodeJSON formats a value as JSON: on several lines, indented by depth except for the first, or on one line if depth is
// negative.
func encodeJSON(value any, depth int) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if depth >= 0 {
		e.SetIndent(strings.Repeat(indentation, depth), indentation)
	}
	if err := e.Encode(value); err != nil {
		panic("setup: an entry can't be written: " + err.Error()) // a bug here, which any test finds
	}
	return strings.TrimSpace(b.String())
}

// setValue stores a value at keys, whose parent exists. A new value gets lines of its own.
func setValue(v *hujson.Value, keys []string, value any) error {
	depth, there := len(keys), v.Find(pointer(keys)) != nil
	if err := v.Patch(patch("add", keys, encodeJSON(value, depth))); err != nil || there {
		return err
	}
	obj, ok := v.Find(pointer(keys[:depth-1])).Value.(*hujson.Object)
	if !ok {
		return fmt.Errorf("%q should be an object", strings.Join(keys[:depth-1], "."))
	}
	m, line := &obj.Members[len(obj.Members)-1], "\n"+strings.Repeat(indentation, depth)
	m.Name.BeforeExtra = append(bytes.TrimRight(m.Name.BeforeExtra, " \t\r\n"), line...)
	m.Value.BeforeExtra = hujson.Extra(" ")
	if !bytes.Contains(obj.AfterExtra, []byte("\n")) {
		obj.AfterExtra = append([]byte(strings.TrimSuffix(line, indentation)), obj.AfterExtra...)
	}
	return nil
}

// Snippet returns the smallest content of a client's file that starts the server.
func (c Client) Snippet(s Server) string {
	if c.snippet != "" {
		return strings.NewReplacer("@NAME@", s.Name, "@COMMAND@", encodeJSON(s.Command, -1), "@ARGS@", encodeJSON(s.Args, -1)).Replace(c.snippet)
	}
	return encodeJSON(map[string]any{c.servers: map[string]any{s.Name: c.entryFor(nil, s)}}, 0) + "\n"
}
