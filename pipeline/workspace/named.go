package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/containment"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Policy decides how the changes to a named directory are applied.
type Policy string

// The policies. With ReadOnly, programs can't change their own view either.
const (
	AskPerson Policy = "ask"
	AutoApply Policy = "apply" // at the end of each run with exit code 0
	ReadOnly  Policy = "read"
)

// Named is a directory of the host in which agents work by its name.
type Named struct {
	Name    string
	Path    string // absolute
	Changes Policy
	For     []string // namespaces that may use it; nil is all
}

func (n Named) allows(namespace string) bool {
	return len(n.For) == 0 || slices.Contains(n.For, pipeline.NamespaceOrDefault(namespace))
}

// String describes the directory to an agent, which does not need its path.
func (n Named) String() string {
	switch n.Changes {
	case AutoApply:
		return n.Name + " (changes are applied when a run ends with exit code 0)"
	case ReadOnly:
		return n.Name + " (read-only)"
	}
	return n.Name + " (a person reviews the changes)"
}

// Mount returns the directory as a mount for sandboxes; the zero value has none.
func (n Named) Mount() backends.Mount {
	if n.Path == "" {
		return backends.Mount{}
	}
	return backends.Mount{Host: n.Path, Propose: n.Changes != ReadOnly}
}

// Mounts returns the further mount that git needs, see Repository.
func (n Named) Mounts() []backends.Mount {
	if m, found := Repository(n.Path); found {
		return []backends.Mount{m}
	}
	return nil
}

// HasNamed reports whether the operator has named any directory.
func HasNamed(p *pipeline.Pipeline) bool {
	return len(pipeline.PackageSettings[Config](p).Named) > 0
}

// listNamed returns the named directories that a namespace may use, ordered by name.
func listNamed(p *pipeline.Pipeline, namespace string) (all []Named) {
	named := pipeline.PackageSettings[Config](p).Named
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if named[name].allows(namespace) {
			all = append(all, named[name])
		}
	}
	return all
}

// DescribeNamed returns a description of each named directory that a namespace may use, ordered by name.
func DescribeNamed(p *pipeline.Pipeline, namespace string) (all []string) {
	for _, n := range listNamed(p, namespace) {
		all = append(all, n.String())
	}
	return all
}

// FindNamed returns a named directory that a namespace may use.
func FindNamed(p *pipeline.Pipeline, namespace, name string) (Named, error) {
	n := pipeline.PackageSettings[Config](p).Named[name]
	known := n.Name != "" && n.allows(namespace)
	var names []string
	for _, one := range listNamed(p, namespace) {
		names = append(names, one.Name)
	}
	switch {
	case !known && names == nil:
		return n, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown workspace %.80q: the operator has configured none for "+
			"namespace %s", name, pipeline.NamespaceOrDefault(namespace)),
			"configure one: ", remedy.Setting.With("workspaces.NAME"))
	case !known:
		return n, pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("unknown workspace %.80q", name),
			"choose from: "+strings.Join(names, ", "))
	}
	if n.Changes != ReadOnly {
		if err := CheckProposal(p); err != nil {
			return n, err
		}
	}
	return n, containment.CheckNamedDir("workspace "+strconv.Quote(name), "workspaces."+name, n.Path)
}

// ApplyNow applies the change set of the run itself, for a directory with the policy AutoApply. After a conflict, the
// set stays proposed.
func ApplyNow(ctx context.Context, r *pipeline.Run) {
	set := r.Outcome.Changes
	if set == nil {
		return
	}
	store, err := openStore(r.Pipeline)
	if err == nil {
		var done changes.Applied
		if done, err = store.Apply(ctx, set.ID, changes.ApplyOptions{}); err == nil {
			r.AddRow(Applied, appliedFacts(done, "policy"))
			r.Outcome.Changes = &done.Set
			return
		}
	}
	var conflicts *changes.Conflicts
	if errors.As(err, &conflicts) {
		r.Outcome.ChangesFailed = "the changes were not applied, and a person decides: " + err.Error()
		return
	}
	r.Outcome.ChangesFailed = "the changes were not applied: " + err.Error()
}
