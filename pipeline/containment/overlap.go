package containment

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// Overlap refuses a run whose program could write files that we write or trust outside: the directory for its
// artifacts, and the operator's own files, such as the audit log. It can't read those either: backends hide them in a
// read-only mount of a directory above, and a mount of just them would be empty. Files are compared by device and
// inode, since a mount or a link can show them elsewhere. saves is the directory for artifacts, or nil.
func Overlap(p *pipeline.Pipeline, dirs []backends.Mount, saves *hostfs.Dir) error {
	mounts := slices.DeleteFunc(slices.Clone(dirs), func(m backends.Mount) bool { return m.Host == "" })
	if len(mounts) == 0 && saves == nil {
		return nil
	}
	own := backends.LocateHidden(p.Config.Protected)
	var there backends.Hidden
	if saves != nil {
		if ours := findOverlap(p, own, saves.Path, true); ours != "" {
			return pipeline.Refuse(pipeline.StageValidate,
				fmt.Sprintf("the directory for artifacts, %s, contains or is in %s, which belongs to sandboxmcp", saves.Path, ours),
				"name another directory with ", remedy.Artifacts)
		}
		there = backends.LocateHidden([]string{saves.LastExisting()})
	}
	for _, m := range mounts {
		host := ResolveLinks(m.Host)
		if m.Write && saves != nil && there.FirstWithin(host) != "" {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the program could replace the directory for artifacts, which is in %s",
				m.Host),
				"name a directory outside of it with ", remedy.Artifacts, ", or show it read-only")
		}
		if ours := findOverlap(p, own, host, m.Write); ours != "" {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%s contains or is in %s, which belongs to sandboxmcp", m.Host, ours),
				"mount another directory")
		}
	}
	return nil
}

// CheckHome refuses a home that is not below Config.Homes; "" is none.
func CheckHome(p *pipeline.Pipeline, home string) error {
	if homes := p.Config.Homes; home == "" || homes != "" && paths.Below(ResolveLinks(home), ResolveLinks(homes)) {
		return nil
	}
	return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%s is not a home of an agent", home), "")
}

// findOverlap returns the path of ours that a path without links is in or, if above is set, contains; own has those
// that exist.
func findOverlap(p *pipeline.Pipeline, own backends.Hidden, host string, above bool) string {
	for _, ours := range p.Config.Protected { // own lacks missing paths: compare names
		if ours = ResolveLinks(ours); paths.Within(host, ours) || above && paths.Within(ours, host) {
			return ours
		}
	}
	if place := own.PlaceAround(host); place != "" || !above {
		return place
	}
	return own.FirstWithin(host)
}

// ExposesOwnFiles reports whether a mount shows a directory above our own files.
func ExposesOwnFiles(p *pipeline.Pipeline, mounts []backends.Mount) bool {
	own := sync.OnceValue(func() backends.Hidden { return backends.LocateHidden(p.Config.Protected) })
	return slices.ContainsFunc(mounts, func(m backends.Mount) bool {
		return m.Host != "" && findOverlap(p, own(), ResolveLinks(m.Host), true) != ""
	})
}

// ResolveLinks resolves the links of the existing part of a path.
func ResolveLinks(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	rest := ""
	for dir := name; ; dir = filepath.Dir(dir) {
		if found, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(found, rest)
		}
		if dir == filepath.Dir(dir) {
			return name
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
