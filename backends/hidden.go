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

// Cover is a place inside of a sandbox that must be covered, because a mount would show a hidden file there.
type Cover struct {
	Inside string
	Dir    bool // an empty, read-only directory; else an empty or unreadable file
}

// Hidden are files and directories of the host that no program may see, such as the server's keys, by their present names:
// with links followed, and by every mount that shows them. Copies, hard links and other file systems with the same content
// are not known.
type Hidden struct {
	names  []string // as configured
	places []string // present locations, none within another
}

// Hide locates absolute names on the host. A name that does not exist has no location.
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

// Check refuses mounts that can't be covered: asked is the request's spec, real has its links followed. A name within a
// hidden one was chosen by the server itself, such as a directory of packages, and passes.
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

// Submount is what is mounted below a path of the host.
type Submount struct {
	Path   string
	File   bool // it is no directory
	Closed bool // a file system of the kernel's own, such as proc, or one that this process can't enter
}

// Covers returns the places to cover within a mount whose links were followed: of hidden files, and of the kernel's own
// file systems, which would show the host.
func (h Hidden) Covers(m Mount) (list []Cover) {
	for _, sub := range Submounts(m.Host) {
		if rest, err := filepath.Rel(m.Host, sub.Path); err == nil && sub.Closed {
			list = append(list, Cover{path.Join(m.Inside, filepath.ToSlash(rest)), !sub.File})
		}
	}
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

// Uncovered refuses mounts with hidden files in them, for a backend that can't cover anything.
func (h Hidden) Uncovered(spec Spec, why string) error {
	for _, m := range append(slices.Clone(spec.Mounts), Mount{Host: spec.Workspace.Host, Inside: spec.Workspace.Host}) {
		if covers := h.Covers(m); m.Host != "" && len(covers) > 0 {
			return RefuseMount(m.Host, "holds "+covers[0].Inside+", which programs may not see, and which "+why)
		}
	}
	return nil
}

// Holds returns the hidden place that contains a path of the host whose links were followed; "" if there is none.
func (h Hidden) Holds(real string) string {
	for _, place := range h.places {
		if paths.Within(real, place) {
			return place
		}
	}
	return ""
}
