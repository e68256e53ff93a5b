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

// applyFile reads the file name, or the user's own file for "".
func (l *loader) applyFile(name string) {
	explicit := name != ""
	if !explicit {
		base := l.xdgDir("XDG_CONFIG_HOME", ".config")
		if base == "" {
			return
		}
		name = filepath.Join(base, "sandboxmcp", "config.yaml")
	}
	data, err := readFile(name)
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

// readFile returns the content of a configuration file. It does not block on a FIFO. On systems with mode bits it refuses a
// file that everybody may write: any user could change the policy.
func readFile(name string) ([]byte, error) {
	file, err := openFile(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", withoutPath(err))
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("the file is larger than %d KB: is it the right one?", maxFile>>10)
	}
	return data, nil
}

// withoutPath returns err without its path, since fail adds the path.
func withoutPath(err error) error {
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

func (d *document) position(n *yaml.Node) string { return d.name + ":" + strconv.Itoa(n.Line) }

// parse applies a file of one YAML document, or of comments only.
func (d *document) parse(data []byte) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return // only comments
	case err != nil:
		d.reportSyntax(err)
		return
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		d.fail(d.position(&second), "", "a second document: one file holds one configuration")
		return
	case !errors.Is(err, io.EOF):
		d.reportSyntax(err)
		return
	}
	if len(doc.Content) == 1 {
		d.applySection("", doc.Content[0])
	}
}

// reportSyntax reports an error of the parser, whose text begins with "yaml: line 3: ".
func (d *document) reportSyntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	from := d.name
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, what, ok := strings.Cut(rest, ": "); ok {
			from, text = d.name+":"+line, what
		}
	}
	d.fail(from, "", "not valid YAML: %s", text)
}

// eachPair calls f with each key of a mapping and its value.
func (d *document) eachPair(key string, n *yaml.Node, f func(key string, k, v *yaml.Node)) {
	parent := strings.TrimSuffix(key, ".")
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // everything in the section is commented out
	}
	if n.Kind != yaml.MappingNode {
		d.fail(d.position(n), parent, "expected keys and values, not %s", nodeKind(n))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Tag != "!!str" {
			d.fail(d.position(k), parent, "a key must be a plain word, not %s", nodeKind(k))
			continue
		}
		full := key + k.Value
		if line, twice := d.seen[full]; twice {
			d.fail(d.position(k), full, "the key is already in line %d", line)
			continue
		}
		d.seen[full] = k.Line
		f(full, k, v)
	}
}

// applySection applies a mapping. key is the prefix of its keys: "", or a name and a dot.
func (d *document) applySection(key string, n *yaml.Node) {
	d.eachPair(key, n, func(full string, k, v *yaml.Node) {
		s, known := d.findSetting(full)
		enabled, isSwitch := d.findSetting(full + ".enabled")
		switch {
		case strings.Contains(k.Value, "."):
			d.reportUnknown(full, k)
		case known:
			d.applySetting(s, v)
		case isSwitch && v.Kind == yaml.ScalarNode && v.Tag != "!!null": // "pool: off"
			d.applySetting(enabled, v)
		case full == "http.certificates":
			d.readCertificates(v)
		case full == "http.templates":
			d.readTemplates(v)
		case full == "data":
			d.readData(v)
		case full == "workspaces":
			d.readWorkspaces(v)
		case full == "runtimes":
			d.readRuntimes(v)
		case full == "agents":
			d.readAgents(v)
		case full == "profiles":
			d.readProfiles(v)
		case d.isSection(full):
			d.applySection(full+".", v)
		default:
			d.reportUnknown(full, k)
		}
	})
}

// isSection reports whether settings have names below key.
func (d *document) isSection(key string) bool {
	return slices.ContainsFunc(d.settings, func(s setting) bool { return strings.HasPrefix(s.key, key+".") })
}

// applyFields applies a mapping whose only valid keys are keys. has is their description for messages.
func (d *document) applyFields(full string, n *yaml.Node, keys []setting, has string) {
	var names []string
	for _, s := range keys {
		names = append(names, strings.TrimPrefix(s.key, full+"."))
	}
	d.eachPair(full+".", n, func(key string, k, v *yaml.Node) {
		if i := slices.Index(names, k.Value); i >= 0 {
			d.applySetting(keys[i], v)
		} else {
			d.fail(d.position(k), key, "unknown key%s: %s", spelling.DidYouMean(k.Value, names), has)
		}
	})
}

// applySetting applies the value of one key.
func (d *document) applySetting(s setting, n *yaml.Node) {
	v, err := scalarValue(n)
	if err != nil {
		d.fail(d.position(n), s.key, "%v", err)
		return
	}
	d.set(s, v, d.position(n))
}

// reportUnknown reports an unknown key and suggests a similar one: a key at this place, or one of that name elsewhere.
func (d *document) reportUnknown(full string, k *yaml.Node) {
	if full == "web.engines" {
		d.fail(d.position(k), full, "pages of search engines are no longer read: remove it, and set web.searxng or web.brave_key")
		return
	}
	known := []string{"profiles", "runtimes", "agents", "data", "workspaces", "limits", "caps", "artifacts", "sessions", "packages",
		"approvals", "validate", "keep", "images", "containers", "redact", "events", "http", "http.certificates", "http.templates"}
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
	d.fail(d.position(k), full, "unknown key%s", near)
}

// scalarValue returns the value of a node that is a word or a list of words.
func scalarValue(n *yaml.Node) (value, error) {
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return value{}, fmt.Errorf("tags such as %.40q are not supported", n.Tag)
	case n.Kind == yaml.ScalarNode:
		return value{words: []string{n.Value}, tag: n.Tag}, nil
	case n.Kind != yaml.SequenceNode:
		return value{}, fmt.Errorf("expected a value, not %s", nodeKind(n))
	}
	list := value{list: true}
	for _, item := range n.Content {
		no := fmt.Errorf("the list in line %d has %s instead of text", item.Line, nodeKind(item))
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

// nodeKind returns the name of a node's type, for messages.
func nodeKind(n *yaml.Node) string {
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
	return errors.New("this is not a regular file")
}
