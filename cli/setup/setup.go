// Package setup puts sandboxmcp into the configuration of programs that start MCP servers, and takes it out again.
//
// What holds: only the entry of ours changes. All other bytes of the file stay, comments and line ends too; a file that
// can't be read with certainty is refused and not touched; a file is replaced in one step, and what it was before the
// entry came is kept beside it. Taking the entry out gives back those bytes if nothing else has changed.
//
// tailscale/hujson finds the places in JSON with comments, go-toml those in TOML, yaml.v3 those in YAML.
package setup

import (
	"bytes"
	"errors"
	"fmt"
)

// Server is the program that a client starts.
type Server struct {
	Name    string   // of the entry
	Command string   // an absolute path
	Args    []string // after it
}

// Change is a planned change to a client's file.
type Change struct {
	Path   string // with links followed
	There  bool   // the file is
	Before []byte // what is in it
	After  []byte // what is to be in it
	Remove bool   // the file goes: nothing but our entry was ever in it
	backup []byte // what is to be kept of what was before the entry; nil keeps nothing more
	same   bool   // After is what is kept, which need not be kept any longer then
}

// Changes reports whether there is something to do.
func (c Change) Changes() bool { return c.Remove || !bytes.Equal(c.Before, c.After) }

// Has reports whether the client's file at path has an entry of this name, whatever is in it.
func (c Client) Has(path, name string) (bool, error) {
	_, there, err := c.Entry(path, name)
	return there, err
}

// Entry returns how the client's file at path starts the server of this name, and whether it has one.
func (c Client) Entry(path, name string) (Server, bool, error) {
	f, err := open(path)
	if err != nil || !f.there {
		return Server{}, false, err
	}
	s, there, err := c.find(f.data, name)
	return s, there, f.in(err)
}

// Add plans what is done to the file at path so that the client starts s.
func (c Client) Add(path string, s Server) (Change, error) {
	f, err := open(path)
	if err != nil {
		return Change{}, err
	}
	if f.locked {
		return Change{}, fmt.Errorf("%q is read-only: make it writable first", f.path)
	}
	had, err := c.Has(path, s.Name)
	if err != nil {
		return Change{}, err
	}
	after, err := c.added(f.data, s)
	if err != nil {
		return Change{}, f.in(err)
	}
	change := Change{Path: f.path, There: f.there, Before: f.data, After: after}
	if f.there && !had {
		change.backup = append([]byte{}, f.data...)
	}
	return change, nil
}

// Remove plans how the entry of this name goes. It gives back what was before Add, as far as nothing else changed.
func (c Client) Remove(path, name string) (Change, error) {
	f, err := open(path)
	if err != nil {
		return Change{}, err
	}
	change := Change{Path: f.path, There: f.there, Before: f.data, After: f.data}
	s, there, err := c.find(f.data, name)
	if err != nil {
		return Change{}, f.in(err)
	}
	if !f.there || !there {
		return change, nil
	}
	if f.locked {
		return Change{}, fmt.Errorf("%q is read-only: make it writable first", f.path)
	}
	before, original, err := c.original(f, s)
	if err != nil {
		return Change{}, err
	}
	if original {
		change.After, change.Remove, change.same = before, before == nil, before != nil
		return change, nil
	}
	change.After, err = c.removed(f.data, name, before)
	return change, f.in(err)
}

// original returns what the file was before the entry s came, if the file is exactly what became of that; nil means
// that there was no file. Otherwise it is what is kept of some time before, to compare with.
func (c Client) original(f file, s Server) (before []byte, same bool, err error) {
	before, err = f.original()
	if err != nil {
		return nil, false, err
	}
	after, err := c.added(before, s)
	if err != nil {
		return nil, false, nil // what is kept is from another time
	}
	return before, bytes.Equal(after, f.data), nil
}

// errForm is about files in which the entry could be, in a form that can't be edited with certainty.
var errForm = errors.New("that is no form that can be edited safely")

func (c Client) added(data []byte, s Server) ([]byte, error) {
	switch c.form {
	case inTOML:
		return tomlAdded(data, s)
	case inYAML:
		return yamlAdded(data, s)
	}
	text, bom := bytes.CutPrefix(data, bom)
	out, err := jsonAdded(text, c.place(text), c.entry(text, s), s.Name)
	return restore(out, bom), err
}

// find returns the command of the entry, as far as it has one.
func (c Client) find(data []byte, name string) (Server, bool, error) {
	switch c.form {
	case inTOML:
		return asTOML().find(data, name)
	case inYAML:
		return asYAML().find(data, name)
	}
	text, _ := bytes.CutPrefix(data, bom)
	return jsonFind(text, c.place(text), name)
}

// removed goes without what was kept; what is kept says which empty containers are ours.
func (c Client) removed(data []byte, name string, original []byte) ([]byte, error) {
	switch c.form {
	case inTOML:
		return tomlRemoved(data, name)
	case inYAML:
		return yamlRemoved(data, name, original)
	}
	text, bom := bytes.CutPrefix(data, bom)
	out, err := jsonRemoved(text, c.place(text), name, original)
	return restore(out, bom), err
}

var bom = []byte("\ufeff")

func restore(text []byte, had bool) []byte {
	if had && text != nil {
		return append(bytes.Clone(bom), text...)
	}
	return text
}
