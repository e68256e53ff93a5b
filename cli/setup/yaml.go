package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// extensions is the key of Goose's servers.
const extensions = "extensions"

// yamlRead reads a file of one document, whose value is a mapping, and what that means. The mapping is nil of a file that has no value at
// all. A key that is there twice, or extensions that are no mapping, are errors.
func yamlRead(text []byte) (root *yaml.Node, all map[string]any, err error) {
	all = map[string]any{}
	if bytes.ContainsAny(bytes.ReplaceAll(text, []byte("\r\n"), nil), "\r\u0085\u2028\u2029") { // which end lines in YAML 1.1
		return nil, nil, fmt.Errorf("it has line ends of other kinds than those of Unix and Windows: %w", errForm)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, all, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("it is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("it has more than one document: %w", errForm)
	}
	root = doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, all, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, nil, fmt.Errorf("line %d, where the whole file should be a mapping: %w", root.Line, errForm)
	}
	if err := doc.Decode(&all); err != nil {
		return nil, nil, fmt.Errorf("it is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if v := all[extensions]; v != nil {
		if _, ok := v.(map[string]any); !ok {
			return nil, nil, fmt.Errorf("%s is no mapping: %w", extensions, errForm)
		}
	}
	return root, all, nil
}

// yamlAt returns the index of a key in the Content of a mapping, or -1.
func yamlAt(mapping *yaml.Node, name string) int {
	for i := 0; mapping != nil && i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// yamlBlock returns the range of lines of a member of a mapping in block style: from its key up to the next key, or up to end if
// it is the last one, without trailing blank lines and comments that are not indented more than its key.
func yamlBlock(lines [][]byte, mapping *yaml.Node, at, end int) (from, to int) {
	key := mapping.Content[at]
	from, to = key.Line-1, end
	if at+2 < len(mapping.Content) {
		to = mapping.Content[at+2].Line - 1
	}
	for to > from+1 {
		line := lines[to-1]
		text := bytes.TrimLeft(line, " ")
		if rest := bytes.TrimSpace(text); len(rest) > 0 && (rest[0] != '#' || len(line)-len(text) >= key.Column) {
			break
		}
		to--
	}
	return from, to
}

// yamlEnd returns the number of lines of a document, which ends before its end mark, "...".
func yamlEnd(lines [][]byte) int {
	for i, line := range lines {
		if word := bytes.TrimRight(line, " \t\r\n"); bytes.Equal(word, []byte("...")) {
			return i
		}
	}
	return len(lines)
}

// yamlEntry returns a server's entry for Goose, in lines that begin with indent. Goose shows the
// description; the timeout is its own default, in seconds.
func yamlEntry(s Server, indent, newline string) []byte {
	in := indent + "  "
	return []byte(strings.Join([]string{
		indent + yamlKey(s.Name) + ":",
		in + "enabled: true",
		in + "type: stdio",
		in + "name: " + string(compact(s.Name)),
		in + "description: runs code in a sandbox, and leaves a receipt",
		in + "cmd: " + string(compact(s.Command)),
		in + "args: " + string(compact(s.Args)),
		in + "env_keys: []",
		in + "envs: {}",
		in + "timeout: " + strconv.Itoa(toolSeconds), "",
	}, newline))
}

// yamlKey returns a name as a key, in quotes where YAML would take it for a number, a date, a truth value or null.
func yamlKey(name string) string {
	var v any
	if key := tomlKey(name); key == name && yaml.Unmarshal([]byte(name), &v) == nil && v == any(name) {
		return name
	}
	return string(compact(name))
}

func asYAML() language {
	return language{extensions, "cmd", "entry at its end", func(data []byte) (map[string]any, error) {
		_, all, err := yamlRead(data)
		return all, err
	}}
}

// yamlAdded returns text with an entry for s, after checking that nothing else changed. Braces, aliases and anchors around the
// entry are refused, since edits go by lines.
func yamlAdded(text []byte, s Server) ([]byte, error) {
	root, _, err := yamlRead(text)
	if err != nil {
		return nil, err
	}
	newline := styleOf(text, nil).newline
	lines := bytes.SplitAfter(text, []byte("\n"))
	end := yamlEnd(lines)
	at := yamlAt(root, extensions)
	if root != nil && root.Style&yaml.FlowStyle != 0 {
		return nil, fmt.Errorf("line %d, where the whole file is in braces: %w", root.Line, errForm)
	}
	var out []byte
	switch {
	case root == nil || at < 0:
		if root == nil && bytes.Contains(text, []byte("\n...")) {
			return nil, fmt.Errorf("it has an end and no value: %w", errForm)
		}
		from := len(bytes.Join(lines[:end], nil))
		out = splice(text, from, from, append([]byte(extensions+":"+newline), yamlEntry(s, "  ", newline)...))
		out = yamlBroken(out, from, newline)
	default:
		out, err = yamlInto(lines, root, at, end, s, newline)
	}
	if err != nil {
		return nil, err
	}
	return out, asYAML().checked(text, out, s)
}

// yamlBroken inserts a line end at an offset, unless a line begins there already.
func yamlBroken(out []byte, from int, newline string) []byte {
	if from > 0 && out[from-1] != '\n' {
		return splice(out, from, from, []byte(newline))
	}
	return out
}

// yamlInto adds an entry to the mapping of servers, or updates cmd and args of the one that is there.
func yamlInto(lines [][]byte, root *yaml.Node, at, end int, s Server, newline string) ([]byte, error) {
	text := bytes.Join(lines, nil)
	key, servers := root.Content[at], root.Content[at+1]
	from, to := yamlBlock(lines, root, at, end)
	head := len(bytes.Join(lines[:from], nil))
	tail := head + len(bytes.Join(lines[from:to], nil))
	if len(servers.Content) == 0 && servers.Kind != yaml.AliasNode { // null, or {}
		if to != from+1 || servers.Anchor != "" || key.Column != 1 {
			return nil, fmt.Errorf("line %d, %s: %w", key.Line, extensions, errForm)
		}
		if i := bytes.LastIndex(text[head:tail], []byte("{")); servers.Kind == yaml.MappingNode && i >= 0 {
			if j := bytes.IndexByte(text[head+i:tail], '}'); j > 0 {
				text, tail = splice(text, head+i, head+i+j+1, nil), tail-j-1
			}
		}
		return yamlBroken(splice(text, tail, tail, yamlEntry(s, "  ", newline)), tail, newline), nil
	}
	if servers.Kind != yaml.MappingNode || servers.Style&yaml.FlowStyle != 0 {
		return nil, fmt.Errorf("line %d, where %s is in braces or an alias: %w", key.Line, extensions, errForm)
	}
	i := yamlAt(servers, s.Name)
	if i < 0 {
		indent := strings.Repeat(" ", servers.Content[0].Column-1)
		return yamlBroken(splice(text, tail, tail, yamlEntry(s, indent, newline)), tail, newline), nil
	}
	entry := servers.Content[i+1]
	if entry.Kind != yaml.MappingNode || entry.Style&yaml.FlowStyle != 0 || len(entry.Content) == 0 {
		return nil, fmt.Errorf("line %d, %s.%s: %w", servers.Content[i].Line, extensions, s.Name, errForm)
	}
	for _, remote := range []string{"uri", "url"} {
		if yamlAt(entry, remote) >= 0 {
			return nil, fmt.Errorf("the server %q there is one behind a URL: %w", s.Name, errForm)
		}
	}
	_, last := yamlBlock(lines, servers, i, to)
	var had struct {
		Cmd  string
		Args []string
	}
	_ = entry.Decode(&had) // what is of another type is not the same
	indent := strings.Repeat(" ", entry.Content[0].Column-1)
	for _, want := range []struct {
		name, value string
		same        bool
	}{{"args", string(compact(s.Args)), reflect.DeepEqual(had.Args, s.Args)}, {"cmd", string(compact(s.Command)), had.Cmd == s.Command}} {
		if want.same {
			continue
		}
		line := []byte(indent + want.name + ": " + want.value + newline)
		n := yamlAt(entry, want.name)
		if n < 0 {
			lines[last-1] = append(yamlBroken(bytes.Clone(lines[last-1]), len(lines[last-1]), newline), line...)
			continue
		}
		if note := entry.Content[n+1].LineComment; note != "" {
			line = append(bytes.TrimRight(line, "\r\n"), " "+note+newline...)
		}
		a, b := yamlBlock(lines, entry, n, last)
		for j := a; j < b; j++ {
			lines[j] = nil
		}
		lines[a] = line
	}
	return bytes.Join(lines, nil), nil
}

// yamlRemoved returns text without the lines of a server, and without the mapping of servers if nothing else is in it and
// original, the content before the entry, does not have it.
func yamlRemoved(text []byte, name string, original []byte) ([]byte, error) {
	root, _, err := yamlRead(text)
	if err != nil {
		return nil, err
	}
	at := yamlAt(root, extensions)
	if at < 0 {
		return nil, errAbsent
	}
	servers := root.Content[at+1]
	i := yamlAt(servers, name)
	if i < 0 || servers.Kind != yaml.MappingNode || servers.Style&yaml.FlowStyle != 0 || root.Style&yaml.FlowStyle != 0 {
		return nil, fmt.Errorf("%s.%s: %w", extensions, name, errForm)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	head, end := yamlBlock(lines, root, at, yamlEnd(lines))
	from, to := yamlBlock(lines, servers, i, end)
	if from == head+1 && to == end && len(servers.Content) == 2 { // nothing else is in it, comments included
		_, old, err := yamlRead(original)
		if _, there := old[extensions]; err == nil && original != nil && !there {
			from = head
		}
	}
	out := append(bytes.Join(lines[:from], nil), bytes.Join(lines[to:], nil)...)
	if err := asYAML().others(text, out, name); err != nil {
		return nil, err
	}
	return out, nil
}
