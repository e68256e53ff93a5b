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

// pair is a member of an object. Its value is a string, a list of strings, a bool, a number or pairs.
type pair struct {
	name  string
	value any
}

// pairs are the members of an object, in order.
type pairs []pair

// entry returns the fields of a server in a client of this kind.
func (c Client) entry(data []byte, s Server) pairs {
	start := pairs{{"command", s.Command}, {"args", s.Args}}
	switch c.kind {
	case typed:
		return append(pairs{{"type", "stdio"}}, start...)
	case listing:
		return append(append(pairs{{"type", "stdio"}}, start...), pair{"tools", []string{"*"}})
	case patient:
		return append(start, pair{"timeout", toolSeconds})
	case withEnv:
		return append(start, pair{"env", pairs{}})
	case opencode:
		own := pairs{{"type", "local"}, {"command", append([]string{s.Command}, s.Args...)}}
		if !nested(data) {
			own = append(own, pair{"enabled", true})
		}
		return own
	}
	return start
}

// place returns the keys that lead to the server of a name in a file. opencode's second version has them one level deeper, and has no
// "enabled".
func (c Client) place(data []byte, name string) []string {
	if c.kind == opencode && nested(data) {
		return []string{"mcp", "servers", name}
	}
	return slices.Concat(c.container, []string{name})
}

// nested reports whether "mcp" has a "servers" that is no server.
func nested(data []byte) bool {
	root, err := parse(data)
	if err != nil || root == nil {
		return false
	}
	servers := root.Find("/mcp/servers")
	if servers == nil {
		return false
	}
	all, ok := servers.Value.(*hujson.Object)
	return ok && servers.Find("/type") == nil && servers.Find("/command") == nil && servers.Find("/enabled") == nil && all != nil
}

// Snippet returns the smallest content of a client's file that starts the server.
func (c Client) Snippet(s Server) string {
	switch c.form {
	case inTOML:
		return string(tomlEntry(s, "\n"))
	case inYAML:
		return extensions + ":\n" + string(yamlEntry(s, "  ", "\n"))
	}
	return string(fresh(nil, c.place(nil, s.Name), c.entry(nil, s)))
}

// wrap returns a value in objects, by these names from outside to inside.
func wrap(names []string, value any) any {
	for _, name := range slices.Backward(names) {
		value = pairs{{name, value}}
	}
	return value
}

// style is the layout of a file.
type style struct{ newline, unit string }

// text writes a value over lines, of which all but the first begin with indent.
func (s style) text(v any, indent string) []byte {
	all, ok := v.(pairs)
	if !ok || len(all) == 0 {
		return compact(v)
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for i, p := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s.newline + indent + s.unit)
		b.Write(compact(p.name))
		b.WriteString(": ")
		b.Write(s.text(p.value, indent+s.unit))
	}
	b.WriteString(s.newline + indent + "}")
	return b.Bytes()
}

// compact returns a value as JSON on one line.
func compact(v any) []byte {
	switch v := v.(type) {
	case pairs:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = string(compact(p.name)) + ": " + string(compact(p.value))
		}
		return []byte("{" + strings.Join(parts, ", ") + "}")
	case []string:
		parts := make([]string, len(v))
		for i, s := range v {
			parts[i] = string(compact(s))
		}
		return []byte("[" + strings.Join(parts, ", ") + "]")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("setup: a string or bool can't be written: " + err.Error()) // our bug, found by any test
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// language is TOML or YAML, as a client has its servers in it.
type language struct {
	key, command string                               // the key of the servers, and that of a server's program
	last         string                               // form and place of a new server, for messages
	meaning      func([]byte) (map[string]any, error) // of a file, as programs read it
}

// find returns the entry of a name, with its command and arguments as far as it has any, and whether it is there.
func (l language) find(data []byte, name string) (s Server, there bool, err error) {
	all, err := l.meaning(data)
	servers, _ := all[l.key].(map[string]any)
	v, there := servers[name]
	e, _ := v.(map[string]any)
	s = Server{Name: name, Args: texts(e["args"])}
	s.Command, _ = e[l.command].(string)
	return s, there, err
}

// checked returns an error unless after has the entry of s, and means the same as before in all else.
func (l language) checked(before, after []byte, s Server) error {
	e, there, err := l.find(after, s.Name)
	if err != nil {
		return fmt.Errorf("%s can't get another %s: %w", l.key, l.last, errForm)
	}
	if !there || e.Command != s.Command || !slices.Equal(e.Args, s.Args) {
		return fmt.Errorf("%s.%s: %w", l.key, s.Name, errForm)
	}
	return l.others(before, after, s.Name)
}

// others returns an error unless before and after mean the same but for the server of a name.
func (l language) others(before, after []byte, name string) error {
	var all [2]map[string]any
	for i, data := range [][]byte{before, after} {
		var err error
		if all[i], err = l.meaning(data); err != nil {
			return errors.Join(err, fmt.Errorf("%s.%s: %w", l.key, name, errForm))
		}
	}
	if !reflect.DeepEqual(otherServers(all[0], l.key, name), otherServers(all[1], l.key, name)) {
		return fmt.Errorf("%s.%s: %w", l.key, name, errForm)
	}
	return nil
}

// otherServers removes the server of a name from all, and key if no other server is below it. It returns all.
func otherServers(all map[string]any, key, name string) map[string]any {
	if servers, ok := all[key].(map[string]any); ok || all[key] == nil {
		if delete(servers, name); len(servers) == 0 {
			delete(all, key)
		}
	}
	return all
}
