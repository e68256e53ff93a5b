package backends

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// Cover is a place inside of a sandbox at which something else has to lie over what a mount shows there.
type Cover struct {
	Inside string
	Dir    bool // an empty, read-only directory; else a file that has nothing in it, or can't be opened
}

// Hidden are files and directories of the host that no program may see, such as the server's keys, by the names that
// these have on the host now: with links followed, and by each other mount that shows them. What a
// copy, a hard link or another file system says of them is not known.
type Hidden struct {
	names  []string // as they were given
	places []string // where they are now, each in no other
}

// Hide looks for absolute names on the host. What does not exist is nowhere.
func Hide(names []string) Hidden {
	var places []string
	for _, name := range names {
		real, err := filepath.EvalSymlinks(name)
		switch {
		case err == nil:
			places = append(places, real)
		case !errors.Is(err, fs.ErrNotExist):
			places = append(places, filepath.Clean(name)) // to cover it may fail, and to pass it over would show it
		}
	}
	h := Hidden{names: slices.Concat(names, places)}
	places = append(places, elsewhere(places)...)
	slices.Sort(places)
	for _, p := range places {
		if !slices.ContainsFunc(h.places, func(o string) bool { return paths.Within(p, o) }) {
			h.places = append(h.places, p)
		}
	}
	return h
}

// Check refuses mounts that nothing can be laid over: asked is as the request has it, real is with links followed. What
// is asked for by a name below a hidden one is the server's own doing, such as a directory of packages.
func (h Hidden) Check(asked, real Spec) error {
	for i, m := range append(slices.Clone(real.Mounts), real.Workspace) {
		name := asked.Workspace.Host
		if i < len(asked.Mounts) {
			name = asked.Mounts[i].Host
		}
		own := slices.ContainsFunc(h.names, func(ours string) bool { return paths.Below(name, ours) })
		for _, place := range h.places {
			switch {
			case m.Host == "" || own:
			case paths.Within(m.Host, place):
				return RefuseMount(name, "is, or lies in, "+place+", which is sandboxmcp's own")
			case m.Write && paths.Below(place, m.Host):
				return RefuseMount(name, "holds "+place+", which is sandboxmcp's own, and would be writable")
			}
		}
	}
	return nil
}

// Covers are what has to lie over a mount whose links were followed.
func (h Hidden) Covers(m Mount) (list []Cover) {
	for _, place := range h.places {
		if !paths.Below(place, m.Host) {
			continue
		}
		rest, err := filepath.Rel(m.Host, place)
		info, statErr := os.Lstat(place)
		if err == nil && !errors.Is(statErr, fs.ErrNotExist) {
			list = append(list, Cover{path.Join(m.Inside, filepath.ToSlash(rest)), statErr != nil || info.IsDir()})
		}
	}
	return list
}

// Uncovered refuses mounts over which something would have to be laid, where nothing can be.
func (h Hidden) Uncovered(spec Spec, why string) error {
	for _, m := range append(slices.Clone(spec.Mounts), spec.Workspace) {
		if covers := h.Covers(m); m.Host != "" && len(covers) > 0 {
			return RefuseMount(m.Host, "holds files of sandboxmcp's own, which "+why)
		}
	}
	return nil
}

// Holds returns the place that a path of the host, with links followed, is or lies in; "" if it is in none.
func (h Hidden) Holds(real string) string {
	for _, place := range h.places {
		if paths.Within(real, place) {
			return place
		}
	}
	return ""
}
