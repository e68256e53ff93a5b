package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sandboxmcp/sandboxmcp/validate/spelling"
)

// maxFile is larger than any handwritten file. A parsed node takes a hundred times the bytes of its text.
const maxFile = 256 << 10

// file reads the file name, or the user's own file for "".
func (l *loader) file(name string) {
	explicit := name != ""
	if !explicit {
		base := l.xdg("XDG_CONFIG_HOME", ".config")
		if base == "" {
			return
		}
		name = filepath.Join(base, "sandboxmcp", "config.yaml")
	}
	data, err := read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !explicit:
		return
	case err != nil:
		l.fail(name, "", "%v", err)
		return
	}
	l.c.File = name
	if abs, err := filepath.Abs(name); err == nil {
		l.c.File = abs
	}
	f := document{loader: l, name: name, seen: map[string]int{}}
	f.parse(data)
}

// read returns the content of a configuration file. It does not block on a FIFO. On systems with mode bits it refuses a
// file that everybody may write: any user could change the policy.
func read(name string) ([]byte, error) {
	file, err := open(name)
	if err != nil {
		return nil, reason(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", reason(err))
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("the file is larger than %d KB: is it the right one?", maxFile>>10)
	}
	return data, nil
}

// reason returns err without its path, since fail adds the path.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// document walks one parsed file. It visits only known keys, so the depth is bounded. It refuses aliases, by which a
// small file can expand to a huge one.
type document struct {
	*loader
	name string
	seen map[string]int // key -> line
}

func (d *document) at(n *yaml.Node) string { return d.name + ":" + strconv.Itoa(n.Line) }

// parse applies a file of one YAML document, or of comments only.
func (d *document) parse(data []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return // only comments
	case err != nil:
		d.syntax(err)
		return
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		d.fail(d.at(&second), "", "a second document: one file holds one configuration")
		return
	case !errors.Is(err, io.EOF):
		d.syntax(err)
		return
	}
	if len(doc.Content) == 1 {
		d.section("", doc.Content[0])
	}
}

// syntax reports an error of the parser, whose text begins with "yaml: line 3: ".
func (d *document) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	from := d.name
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, what, ok := strings.Cut(rest, ": "); ok {
			from, text = d.name+":"+line, what
		}
	}
	d.fail(from, "", "not valid YAML: %s", text)
}

// pairs calls f with each key of a mapping and its value.
func (d *document) pairs(key string, n *yaml.Node, f func(key string, k, v *yaml.Node)) {
	parent := strings.TrimSuffix(key, ".")
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // everything in the section is commented out
	}
	if n.Kind != yaml.MappingNode {
		d.fail(d.at(n), parent, "keys and values are wanted here, not %s", shape(n))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag != "!!str" {
			d.fail(d.at(k), parent, "a key must be a plain word, not %s", shape(k))
			continue
		}
		full := key + k.Value
		if line, twice := d.seen[full]; twice {
			d.fail(d.at(k), full, "the key stands in line %d already", line)
			continue
		}
		d.seen[full] = k.Line
		f(full, k, v)
	}
}

// section applies a mapping. key is the prefix of its keys: "", or a name and a dot.
func (d *document) section(key string, n *yaml.Node) {
	d.pairs(key, n, func(full string, k, v *yaml.Node) {
		s, known := d.find(full)
		enabled, isSwitch := d.find(full + ".enabled")
		switch {
		case strings.Contains(k.Value, "."):
			d.unknown(full, k)
		case known:
			d.setting(s, v)
		case isSwitch && v.Kind == yaml.ScalarNode && v.Tag != "!!null": // "pool: off"
			d.setting(enabled, v)
		case full == "http.certificates":
			d.certificates(v)
		case full == "http.templates":
			d.templates(v)
		case full == "data":
			d.data(v)
		case full == "runtimes":
			d.runtimes(v)
		case full == "profiles":
			d.profiles(v)
		case d.isSection(full):
			d.section(full+".", v)
		default:
			d.unknown(full, k)
		}
	})
}

// isSection reports whether settings have names below key.
func (d *document) isSection(key string) bool {
	return slices.ContainsFunc(d.settings, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}

// fields applies a mapping whose only valid keys are keys. has is their description for messages.
func (d *document) fields(full string, n *yaml.Node, keys []setting, has string) {
	var names []string
	for _, s := range keys {
		names = append(names, strings.TrimPrefix(s.key, full+"."))
	}
	d.pairs(full+".", n, func(key string, k, v *yaml.Node) {
		if i := slices.Index(names, k.Value); i >= 0 {
			d.setting(keys[i], v)
		} else {
			d.fail(d.at(k), key, "unknown key%s: %s", spelling.DidYouMean(k.Value, names), has)
		}
	})
}

// setting applies the value of one key.
func (d *document) setting(s setting, n *yaml.Node) {
	v, err := scalars(n)
	if err != nil {
		d.fail(d.at(n), s.key, "%v", err)
		return
	}
	d.set(s, v, d.at(n))
}

// unknown reports an unknown key and suggests a similar one: a key at this place, or one of that name elsewhere.
func (d *document) unknown(full string, k *yaml.Node) {
	if full == "web.engines" {
		d.fail(d.at(k), full, "pages of search engines are no longer read: remove it, and set web.searxng or web.brave_key")
		return
	}
	known := []string{"profiles", "runtimes", "data", "limits", "caps", "artifacts", "sessions", "packages", "approvals", "validate", "keep", "images", "containers", "redact", "events", "http", "http.certificates", "http.templates"}
	byLeaf := map[string]string{}
	for _, s := range d.settings {
		known = append(known, s.key)
		if leaf := s.key[strings.LastIndexByte(s.key, '.')+1:]; byLeaf[leaf] == "" {
			byLeaf[leaf] = s.key
		}
	}
	near := spelling.Nearest(full, known)
	if near == "" {
		near = byLeaf[spelling.Nearest(k.Value, slices.Sorted(maps.Keys(byLeaf)))]
	}
	if near != "" {
		near = ` (did you mean "` + near + `"?)`
	}
	d.fail(d.at(k), full, "unknown key%s", near)
}

// scalars returns the value of a node that is a word or a list of words.
func scalars(n *yaml.Node) (value, error) {
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return value{}, fmt.Errorf("tags such as %.40q are not used here", n.Tag)
	case n.Kind == yaml.ScalarNode:
		return value{words: []string{n.Value}, tag: n.Tag}, nil
	case n.Kind != yaml.SequenceNode:
		return value{}, fmt.Errorf("a value is wanted, not %s", shape(n))
	}
	list := value{list: true}
	for _, item := range n.Content {
		no := fmt.Errorf("the list in line %d holds %s where text is wanted", item.Line, shape(item))
		switch {
		case item.Kind == yaml.ScalarNode && item.Tag == "!!int" && item.Style&yaml.TaggedStyle == 0:
			list.numbers = no
		case item.Kind != yaml.ScalarNode || item.Tag != "!!str" || item.Style&yaml.TaggedStyle != 0:
			return value{}, no
		}
		list.words = append(list.words, item.Value)
	}
	return list, nil
}

// shape returns the name of a node's type, for messages.
func shape(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias (write the value out)"
	}
	return typeName(n.Tag)
}

// notRegular returns the error for a configuration file that is a directory, a FIFO or a device.
func notRegular(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return errors.New("this is a directory: name the file in it")
	case mode&fs.ModeNamedPipe != 0:
		return errors.New("this is a pipe: write the configuration to a file")
	}
	return errors.New("this is no regular file")
}
