package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Namespaces are those that an identity may use. The zero value has none, as has whatever is missing, empty or
// malformed: only [All] has all.
type Namespaces struct {
	all   bool
	names []string
}

// AllNamespaces stands for all namespaces, alone in a list of the command line, the configuration or the store. No
// namespace has this name.
const AllNamespaces = "*"

// All returns all namespaces.
func All() Namespaces { return Namespaces{all: true} }

// Only returns the namespaces of these names: without a name it is none.
func Only(names ...string) Namespaces { return Namespaces{names: slices.Clone(names)} }

// ParseNamespaces returns what a list that somebody wrote means: AllNamespaces alone is all, and anything else are
// names, which Grant.Check checks.
func ParseNamespaces(list []string) Namespaces {
	if len(list) == 1 && list[0] == AllNamespaces {
		return All()
	}
	return Only(list...)
}

// All reports whether these are all namespaces.
func (n Namespaces) All() bool { return n.all }

// Has reports whether a namespace is among them.
func (n Namespaces) Has(name string) bool { return n.all || slices.Contains(n.names, name) }

// Names returns the namespaces by name, without the meaning of [Namespaces.All]: it is empty for all and for none.
func (n Namespaces) Names() []string { return slices.Clone(n.names) }

// List returns what [ParseNamespaces] reads.
func (n Namespaces) List() []string {
	if n.all {
		return []string{AllNamespaces}
	}
	return append([]string{}, n.names...)
}

// MarshalJSON writes the list.
func (n Namespaces) MarshalJSON() ([]byte, error) { return json.Marshal(n.List()) }

// UnmarshalJSON reads a list of texts, and nothing else: null and the like are errors.
func (n *Namespaces) UnmarshalJSON(data []byte) error {
	var list []*string
	if !bytes.HasPrefix(data, []byte("[")) || json.Unmarshal(data, &list) != nil || slices.Contains(list, nil) {
		return errors.New("namespaces are a list of names")
	}
	names := make([]string, len(list))
	for i, name := range list {
		names[i] = *name
	}
	*n = ParseNamespaces(names)
	return nil
}

// Grant is what an identity may do, and where.
type Grant struct {
	Kind       Kind
	Namespaces Namespaces
}

// Check returns why nobody can have this kind and these namespaces.
func (g Grant) Check() error {
	names := g.Namespaces.names
	switch {
	case g.Kind != Agent && g.Kind != Person:
		return fmt.Errorf("%.40q is not a kind: use agent or person", string(g.Kind))
	case g.Kind == Agent && g.Namespaces.all:
		return errors.New("an agent can't have all namespaces: name them")
	case g.Kind == Agent && len(names) == 0:
		return errors.New("an agent needs a namespace")
	case !g.Namespaces.all && len(names) == 0:
		return fmt.Errorf("a person needs a namespace, or %q for all", AllNamespaces)
	case len(names) > maxNamespaces:
		return fmt.Errorf("these are %d namespaces, more than %d", len(names), maxNamespaces)
	}
	for i, n := range names {
		switch {
		case n == "" || len(n) > maxNamespace || n[0] == '.' || !all(n, ".-_"):
			return fmt.Errorf("%.40q is not a namespace: use letters, digits, -, _ and ., not a dot first", n)
		case slices.Contains(names[:i], n):
			return fmt.Errorf("the namespace %s stands there twice", n)
		}
	}
	return nil
}
