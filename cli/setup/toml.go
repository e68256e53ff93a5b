package setup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tables is the table that holds the tables of Codex's servers.
const tables = "mcp_servers"

// toolSeconds is the time limit that entries set for a tool, in seconds. The default of Codex and Cline is a minute, which is
// less than a person may take to answer a question.
const toolSeconds = 300

// part is one expression of a TOML file: a table's header, or a key and its value.
type part struct {
	table    bool
	array    bool     // of [[tables]]
	key      []string // as it is written
	full     []string // with that of the table it is in
	from, to int      // the offset of its first byte, and of the byte after its last one
	line     int      // the offset of the line that it begins in
}

// tomlRead reads a file: its expressions, in order, and what they mean. It is an error if the servers are no table.
func tomlRead(data []byte) (parts []part, all map[string]any, err error) {
	all = map[string]any{}
	if err := toml.Unmarshal(data, &all); err != nil {
		if e, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := e.Position()
			return nil, nil, fmt.Errorf("it is not valid TOML: line %d, column %d: %s", row, column, strings.TrimPrefix(e.Error(), "toml: "))
		}
		return nil, nil, fmt.Errorf("it is not valid TOML: %w", err)
	}
	if v, ok := all[tables]; ok {
		if _, ok = v.(map[string]any); !ok {
			return nil, nil, fmt.Errorf("%s is no table: %w", tables, errForm)
		}
	}
	var p unstable.Parser
	p.Reset(data)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.Comment {
			continue
		}
		one := part{table: e.Kind != unstable.KeyValue, array: e.Kind == unstable.ArrayTable}
		first := -1
		for keys := e.Key(); keys.Next(); {
			k := keys.Node()
			one.key = append(one.key, string(k.Data))
			if first < 0 {
				first = int(k.Raw.Offset)
			}
			one.to = int(k.Raw.Offset + k.Raw.Length)
		}
		one.from = first
		one.line = bytes.LastIndexByte(data[:first], '\n') + 1
		if one.table {
			table, one.full = one.key, one.key
			one.to += bytes.IndexByte(data[one.to:], ']') + 1
			if one.array {
				one.to++
			}
		} else {
			one.full = slices.Concat(table, one.key)
			one.from, one.to = int(e.Raw.Offset), int(e.Raw.Offset+e.Raw.Length)
		}
		parts = append(parts, one)
	}
	return parts, all, p.Error()
}

// within reports whether the part is the table at path, or in it.
func (p part) within(path ...string) bool {
	return len(p.full) >= len(path) && slices.Equal(p.full[:len(path)], path)
}

// tomlEntry returns the table of a server.
func tomlEntry(s Server, newline string) []byte {
	return []byte(strings.Join([]string{
		"[" + tables + "." + tomlKey(s.Name) + "]",
		"command = " + tomlValue(s.Command),
		"args = " + tomlValue(s.Args),
		"tool_timeout_sec = " + strconv.Itoa(toolSeconds), "",
	}, newline))
}

// tomlKey returns a name as a key, in quotes unless TOML takes it bare.
func tomlKey(name string) string {
	const bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if name != "" && strings.Trim(name, bare) == "" {
		return name
	}
	return tomlValue(name)
}

// tomlValue writes a string, or a list of them, with the escapes that TOML shares with JSON.
func tomlValue(v any) string { return string(compact(v)) }

func asTOML() language {
	return language{tables, "command", "table at the end", func(data []byte) (map[string]any, error) {
		_, all, err := tomlRead(data)
		return all, err
	}}
}

// tomlAdded returns text with an entry for s, after checking that nothing else changed. A new entry goes to the end.
func tomlAdded(text []byte, s Server) ([]byte, error) {
	parts, all, err := tomlRead(text)
	if err != nil {
		return nil, err
	}
	newline := styleOf(text, nil).newline
	out := bytes.Clone(text)
	servers, _ := all[tables].(map[string]any)
	if v, ok := servers[s.Name]; ok {
		out, err = tomlUpdated(out, parts, v, s, newline)
	} else {
		if len(out) > 0 && out[len(out)-1] != '\n' {
			out = append(out, newline...)
		}
		if len(out) > 0 {
			out = append(out, newline...)
		}
		out = append(out, tomlEntry(s, newline)...)
	}
	if err != nil {
		return nil, err
	}
	return out, asTOML().checked(text, out, s)
}

// tomlUpdated sets command and args in place, and adds a missing one after the table's header. A server behind a URL, or
// one without a table header, is an error.
func tomlUpdated(data []byte, parts []part, entry any, s Server, newline string) ([]byte, error) {
	e, _ := entry.(map[string]any)
	if e["url"] != nil {
		return nil, fmt.Errorf("the server %q there is one behind a URL: %w", s.Name, errForm)
	}
	for _, want := range []struct {
		name  string
		value any
		same  bool
	}{{"args", s.Args, slices.Equal(texts(e["args"]), s.Args) && e["args"] != nil}, {"command", s.Command, e["command"] == s.Command}} {
		if want.same {
			continue
		}
		line := want.name + " = " + tomlValue(want.value)
		i := slices.IndexFunc(parts, func(p part) bool { return !p.table && slices.Equal(p.full, []string{tables, s.Name, want.name}) })
		header := slices.IndexFunc(parts, func(p part) bool {
			return p.table && !p.array && slices.Equal(p.full, []string{tables, s.Name})
		})
		switch {
		case i >= 0 && len(parts[i].key) == 1:
			data = splice(data, parts[i].from, parts[i].to, []byte(line))
		case i < 0 && header >= 0:
			end := len(data)
			if n := bytes.IndexByte(data[parts[header].to:], '\n'); n >= 0 {
				end = parts[header].to + n + 1
				data = splice(data, end, end, []byte(line+newline))
			} else {
				data = splice(data, end, end, []byte(newline+line+newline))
			}
		default:
			return nil, fmt.Errorf("%s.%s is no table with a header: %w", tables, s.Name, errForm)
		}
		var err error
		if parts, _, err = tomlRead(data); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// tomlRemoved returns text without the tables of a server and the comments in them. Comments between their last value and
// the next table stay.
func tomlRemoved(text []byte, name string) ([]byte, error) {
	out := bytes.Clone(text)
	for {
		parts, _, err := tomlRead(out)
		if err != nil {
			return nil, err
		}
		first := slices.IndexFunc(parts, func(p part) bool { return p.within(tables, name) })
		if first < 0 {
			break
		}
		last := first
		for last+1 < len(parts) && parts[last+1].within(tables, name) {
			last++
		}
		from, to := parts[first].line, len(out)
		if n := bytes.IndexByte(out[parts[last].to:], '\n'); n >= 0 {
			to = parts[last].to + n + 1
		}
		if len(bytes.TrimSpace(out[to:])) == 0 { // with the empty line that came before it
			from = len(trimLine(out[:from]))
		}
		out = splice(out, from, to, nil)
	}
	if err := asTOML().others(text, out, name); err != nil {
		return nil, err
	}
	return out, nil
}

// trimLine returns text without one empty line at its end.
func trimLine(text []byte) []byte {
	for _, end := range []string{"\r\n", "\n"} {
		if cut, ok := bytes.CutSuffix(text, []byte(end)); ok && (len(cut) == 0 || cut[len(cut)-1] == '\n') {
			return cut
		}
	}
	return text
}
