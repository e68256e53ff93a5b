package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Workspace is a directory that agents may work in by its name.
type Workspace struct {
	Path    string
	Changes string // "ask", "apply" or "read"

	Namespaces []string // that may use it; none is all
}

// workspaceChanges are the values of Workspace.Changes; the first is the default.
func workspaceChanges() []string { return []string{"ask", "apply", "read"} }

// readWorkspaces reads the directories that agents may work in, each a path or a mapping.
func (d *document) readWorkspaces(n *yaml.Node) {
	d.eachPair("workspaces.", n, func(full string, k, v *yaml.Node) {
		if !profileName().MatchString(k.Value) {
			d.fail(d.position(k), "workspaces", "%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", k.Value)
			return
		}
		w, before := Workspace{Changes: workspaceChanges()[0]}, len(d.errs)
		fields := w.settings(full)
		if v.Kind == yaml.ScalarNode {
			d.applySetting(fields[0], v)
		} else {
			d.applyFields(full, v, fields, "a workspace has path, changes and namespaces")
		}
		if len(d.errs) == before && w.Path == "" {
			d.fail(d.position(k), full, "a workspace needs a path")
		}
		d.c.addWorkspace(k.Value, w)
	})
}

// settings returns the settings of a workspace; their keys begin with key.
func (w *Workspace) settings(key string) []setting {
	path := pathKind(&w.Path)
	path.show = func() string { return yamlWord(w.Path) }
	return []setting{
		{key: key + ".path", kind: path},
		{key: key + ".changes", kind: unquotedKind(wordKind(workspaceChanges(), &w.Changes), &w.Changes)},
		{key: key + ".namespaces", kind: listKind(&w.Namespaces)},
	}
}

func (c *Config) addWorkspace(name string, w Workspace) {
	if c.Workspaces == nil {
		c.Workspaces = map[string]Workspace{}
	}
	c.Workspaces[name] = w
}

// ParseWorkspace reads a workspace of the command line: NAME=DIRECTORY, or NAME=DIRECTORY:ask, :apply or :read.
func ParseWorkspace(text string) (name string, w Workspace, err error) {
	name, dir, is := strings.Cut(text, "=")
	w.Changes = workspaceChanges()[0]
	for _, word := range workspaceChanges() {
		if short, cut := strings.CutSuffix(dir, ":"+word); cut {
			dir, w.Changes = short, word
			break
		}
	}
	switch {
	case !is || dir == "":
		return "", w, errors.New("use NAME=DIRECTORY")
	case !profileName().MatchString(name):
		return "", w, fmt.Errorf("%.40q can't be a name: use up to 32 of a-z, 0-9, - and _", name)
	}
	if w.Path, err = filepath.Abs(dir); err == nil {
		w.Path, err = filepath.EvalSymlinks(w.Path) // a person types it now, and means what is there
	}
	return name, w, err
}

// AddWorkspace adds a workspace of the command line, see ParseWorkspace.
func (c *Config) AddWorkspace(text string) error {
	name, w, err := ParseWorkspace(text)
	if err != nil {
		return err
	}
	c.addWorkspace(name, w)
	for _, s := range w.settings("workspaces." + name) {
		c.origins[s.key] = "flag"
	}
	return nil
}
