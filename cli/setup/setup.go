// Package setup puts sandboxmcp into the configuration of programs that start MCP servers, and takes it out again.
//
// Guarantees: only our own entry changes. All other bytes of the file stay, comments and line ends too; a file that
// can't be read with certainty is refused and not touched; a file is replaced in one step, and what it was before the
// entry came is kept beside it. Taking the entry out gives back those bytes if nothing else has changed.
//
// tailscale/hujson finds the places in JSON with comments, and writes what was changed; go-toml finds those in TOML, yaml.v3 those in YAML.
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
	Remove bool   // the file is removed: nothing but our entry was ever in it
	backup []byte // content to write to the backup; nil writes none
	same   bool   // After equals the backup, which is removed then
}

// Changes reports whether there is something to do.
func (c Change) Changes() bool { return c.Remove || !bytes.Equal(c.Before, c.After) }

// Has reports whether the client's file at path has an entry of this name, whatever its content.
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

// Add plans the change of the file at path by which the client starts s. A read-only file, or one that can't be edited
// safely, is an error.
func (c Client) Add(path string, s Server) (Change, error) {
	f, err := open(path)
	if err != nil {
		return Change{}, err
	}
	if f.locked {
		return Change{}, fmt.Errorf("%q is read-only: make it writable first", f.path)
	}
	_, had, err := c.find(f.data, s.Name)
	if err != nil {
		return Change{}, f.in(err)
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

// Remove plans the removal of the entry of this name. It restores the content before Add if nothing else has changed since.
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

// original returns the backup, nil if there is none, and whether adding s to it gives exactly the present file. If so, before
// is the content before the entry came, nil meaning no file; if not, it only shows which containers were there.
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

// errForm is the error of a file that may hold the entry in a form that can't be edited with certainty.
var errForm = errors.New("that is no form that can be edited safely")

// added returns data with the entry of s.
func (c Client) added(data []byte, s Server) (out []byte, err error) {
	text, had := bytes.CutPrefix(data, bom)
	switch c.form {
	case inTOML:
		out, err = tomlAdded(text, s)
	case inYAML:
		out, err = yamlAdded(text, s)
	default:
		out, err = jsonAdded(text, c.place(text, s.Name), c.entry(text, s))
	}
	return restore(out, had), err
}

// find returns the entry of a name, with its command as far as it has one, and whether it is there.
func (c Client) find(data []byte, name string) (Server, bool, error) {
	text := bytes.TrimPrefix(data, bom)
	switch c.form {
	case inTOML:
		return asTOML().find(text, name)
	case inYAML:
		return asYAML().find(text, name)
	}
	return jsonFind(text, c.place(text, name))
}

// removed returns data without the entry of a name. original, the backup, shows which empty containers are ours.
func (c Client) removed(data []byte, name string, original []byte) (out []byte, err error) {
	text, had := bytes.CutPrefix(data, bom)
	original = bytes.TrimPrefix(original, bom)
	switch c.form {
	case inTOML:
		out, err = tomlRemoved(text, name)
	case inYAML:
		out, err = yamlRemoved(text, name, original)
	default:
		out, err = jsonRemoved(text, c.place(text, name), original)
	}
	return restore(out, had), err
}

// bom is the byte order mark of UTF-8, with which programs on Windows begin a file.
var bom = []byte("\ufeff")

// restore returns text with the byte order mark that was cut from the file, if it had one.
func restore(text []byte, had bool) []byte {
	if had && text != nil {
		return append(bytes.Clone(bom), text...)
	}
	return text
}
