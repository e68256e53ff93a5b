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

// Overlap refuses a run that could write, from inside, what we write or trust outside: the directory that its artifacts
// will be saved in, and the operator's own files, such as the audit log. It could not read those either: where a
// directory above them is shown, read-only, the backends cover them, and there is nothing to see in a mount of just
// them. Names of what is there are compared by device and inode, since a mount or a link can show it elsewhere. saves
// is the directory for artifacts, or nil.
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
				fmt.Sprintf("the directory for artifacts, %s, holds, or lies in, %s, which is sandboxmcp's own", saves.Path, ours),
				"name another directory with ", remedy.Artifacts)
		}
		there = backends.LocateHidden([]string{saves.LastExisting()})
	}
	for _, m := range mounts {
		host := ResolveLinks(m.Host)
		if m.Write && saves != nil && there.FirstWithin(host) != "" {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("the program could replace the directory for artifacts, which lies in %s", m.Host),
				"name a directory outside of it with ", remedy.Artifacts, ", or show it read-only")
		}
		if ours := findOverlap(p, own, host, m.Write); ours != "" {
			return pipeline.Refuse(pipeline.StageValidate, fmt.Sprintf("%s holds, or lies in, %s, which is sandboxmcp's own", m.Host, ours), "show another directory")
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

// findOverlap returns which of our own places, where own has those that are there, a path without links is or lies in, or if
// above is set holds.
func findOverlap(p *pipeline.Pipeline, own backends.Hidden, host string, above bool) string {
	for _, ours := range p.Config.Protected { // what is not there yet has no place
		if ours = ResolveLinks(ours); paths.Within(host, ours) || above && paths.Within(ours, host) {
			return ours
		}
	}
	if place := own.PlaceAround(host); place != "" || !above {
		return place
	}
	return own.FirstWithin(host)
}

// ExposesOwnFiles reports whether a program is shown a directory above our own files.
func ExposesOwnFiles(p *pipeline.Pipeline, mounts []backends.Mount) bool {
	own := sync.OnceValue(func() backends.Hidden { return backends.LocateHidden(p.Config.Protected) })
	return slices.ContainsFunc(mounts, func(m backends.Mount) bool {
		return m.Host != "" && findOverlap(p, own(), ResolveLinks(m.Host), true) != ""
	})
}

// ResolveLinks follows the links of a path as far as it exists.
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
