package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Namespaces are the namespaces that an identity may use. The zero value is none, as are missing, empty or malformed
// values: only [All] is all.
type Namespaces struct {
	all   bool
	names []string
}

// AllNamespaces, as the only element of a list in the command line, the configuration or the store, means all
// namespaces. No namespace has this name.
const AllNamespaces = "*"

// All returns all namespaces.
func All() Namespaces { return Namespaces{all: true} }

// Only returns the namespaces with these names; without names it is none.
func Only(names ...string) Namespaces { return Namespaces{names: slices.Clone(names)} }

// ParseNamespaces parses a list of names: AllNamespaces alone is all, anything else are names, which Grant.Check
// validates.
func ParseNamespaces(list []string) Namespaces {
	if len(list) == 1 && list[0] == AllNamespaces {
		return All()
	}
	return Only(list...)
}

// All reports whether these are all namespaces.
func (n Namespaces) All() bool { return n.all }

// Has reports whether n contains a namespace.
func (n Namespaces) Has(name string) bool { return n.all || slices.Contains(n.names, name) }

// Names returns the names. It is empty for all namespaces and for none.
func (n Namespaces) Names() []string { return slices.Clone(n.names) }

// List returns a list for [ParseNamespaces].
func (n Namespaces) List() []string {
	if n.all {
		return []string{AllNamespaces}
	}
	return append([]string{}, n.names...)
}

// MarshalJSON writes the list.
func (n Namespaces) MarshalJSON() ([]byte, error) { return json.Marshal(n.List()) }

// UnmarshalJSON reads a list of strings; anything else, such as null, is an error.
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

// Grant is the kind and the namespaces of an identity.
type Grant struct {
	Kind       Kind
	Namespaces Namespaces
}

// Check returns an error if the kind and the namespaces are invalid.
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
		return fmt.Errorf("%d namespaces, the maximum is %d", len(names), maxNamespaces)
	}
	for i, n := range names {
		switch {
		case n == "" || len(n) > maxNamespace || n[0] == '.' || !all(n, ".-_"):
			return fmt.Errorf("%.40q is not a valid namespace: use letters, digits, -, _ and ., without a leading dot", n)
		case slices.Contains(names[:i], n):
			return fmt.Errorf("the namespace %s is listed twice", n)
		}
	}
	return nil
}
