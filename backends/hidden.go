package backends

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends/paths"
)

// Cover is a path inside a sandbox that must be covered, because a mount would show a hidden file there.
type Cover struct {
	Inside string
	Dir    bool // cover with an empty, read-only directory; else with an empty or unreadable file
}

// Hidden are files and directories of the host that no program may see, such as the server's keys, at their present
// paths: with links resolved, by every mount that shows them, and under all their other names, since device and
// inode decide. Copies, hard links to files in a hidden directory and other file systems with the same content are
// not recognised.
type Hidden struct {
	names  []string // as configured
	places []place  // present paths, none below another
	above  map[string]fs.FileInfo
	mounts mountTable
}

type place struct {
	path string
	info fs.FileInfo // nil if unknown
}

// LocateHidden locates absolute names on the host. A name that does not exist has no location.
func LocateHidden(names []string) Hidden {
	var found []string
	for _, name := range names {
		real, err := filepath.EvalSymlinks(name)
		switch {
		case err == nil:
			found = append(found, real)
		case !errors.Is(err, fs.ErrNotExist):
			found = append(found, filepath.Clean(name)) // covering it may fail, but ignoring it would show it
		}
	}
	h := Hidden{names: slices.Concat(names, found), above: map[string]fs.FileInfo{}, mounts: readMounts()}
	found = append(found, h.mounts.otherNames(found)...)
	slices.Sort(found)
	for _, p := range found {
		if slices.ContainsFunc(h.places, func(o place) bool { return paths.Within(p, o.path) }) {
			continue
		}
		info, _ := os.Stat(p)
		h.places = append(h.places, place{p, info})
		for dir := range parentDirs(p) {
			if _, known := h.above[dir]; known {
				break
			}
			h.above[dir], _ = os.Stat(dir)
		}
	}
	return h
}

// parentDirs yields the directories above a path, the nearest first.
func parentDirs(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := filepath.Dir(name); dir != name && yield(dir); dir = filepath.Dir(dir) {
			name = dir
		}
	}
}

// sameFile reports whether both are known and the same file.
func sameFile(a, b fs.FileInfo) bool { return a != nil && b != nil && os.SameFile(a, b) }

// pathIn returns the path of a place relative to the directory host that contains it, by its text or by the
// directory's identity; "" if host does not contain it.
func (h Hidden) pathIn(p place, host string, identity fs.FileInfo) string {
	for dir := range parentDirs(p.path) {
		if dir == filepath.Clean(host) || sameFile(h.above[dir], identity) {
			rest, _ := filepath.Rel(dir, p.path)
			return rest
		}
	}
	return ""
}

// Check refuses mounts that can't be covered: asked is the request's spec, real has its links resolved. A name
// within a hidden one was chosen by the server itself, such as a directory of packages, and passes.
func (h Hidden) Check(asked, real Spec) error {
	for i, m := range append(slices.Clone(real.Mounts), real.Workspace) {
		name := asked.Workspace.Host
		if i < len(asked.Mounts) {
			name = asked.Mounts[i].Host
		}
		if m.Host == "" || slices.ContainsFunc(h.names, func(ours string) bool { return paths.Below(name, ours) }) {
			continue
		}
		if ours := h.PlaceAround(m.Host); ours != "" {
			return RefuseMount(name, "is, or lies in, "+ours+", which belongs to sandboxmcp")
		}
		if ours := h.FirstWithin(m.Host); m.Write && ours != "" {
			return RefuseMount(name, "holds "+ours+", which belongs to sandboxmcp, and would be writable")
		}
	}
	return nil
}

// Submount is a mount below a path of the host.
type Submount struct {
	Path   string
	File   bool // not a directory
	Closed bool // a file system of the kernel's own, such as proc, or one that this process can't enter
}

// Submounts returns the mounts below a path of the host without links, upper ones first, without those below closed
// ones.
func Submounts(host string) []Submount { return readMounts().submounts(host) }

// CoversIn returns the paths to cover within a mount whose links were resolved: of hidden files, and of the
// kernel's own file systems, which would show the host.
func (h Hidden) CoversIn(m Mount) (list []Cover) {
	for _, sub := range h.mounts.submounts(m.Host) {
		if rest, err := filepath.Rel(m.Host, sub.Path); err == nil && sub.Closed {
			list = append(list, Cover{path.Join(m.Inside, filepath.ToSlash(rest)), !sub.File})
		}
	}
	source, _ := os.Stat(m.Host)
	for _, p := range h.places {
		rest := h.pathIn(p, m.Host, source)
		if info, err := os.Lstat(p.path); rest != "" && !errors.Is(err, fs.ErrNotExist) {
			list = append(list, Cover{path.Join(m.Inside, filepath.ToSlash(rest)), err != nil || info.IsDir()})
		}
	}
	return list
}

// RefuseUncovered refuses mounts that contain hidden files, for a backend that can't cover anything.
func (h Hidden) RefuseUncovered(spec Spec, why string) error {
	for _, m := range append(slices.Clone(spec.Mounts), Mount{Host: spec.Workspace.Host, Inside: spec.Workspace.Host}) {
		if covers := h.CoversIn(m); m.Host != "" && len(covers) > 0 {
			return RefuseMount(m.Host, "holds "+covers[0].Inside+", which programs may not see, and which "+why)
		}
	}
	return nil
}

// PlaceAround returns the hidden place that equals or contains a path of the host, whose links were resolved; "" if
// there is none.
func (h Hidden) PlaceAround(real string) string {
	for _, p := range h.places {
		if paths.Within(real, p.path) {
			return p.path
		}
	}
	at := real
	for next := range parentDirs(real) {
		if place := h.placeOf(at); place != "" {
			return place
		}
		at = next
	}
	return h.placeOf(at)
}

func (h Hidden) placeOf(name string) string {
	if info, err := os.Stat(name); err == nil {
		for _, p := range h.places {
			if sameFile(info, p.info) {
				return p.path
			}
		}
	}
	return ""
}

// FirstWithin returns a hidden place that equals or is inside a directory of the host, whose links were resolved;
// "" if there is none.
func (h Hidden) FirstWithin(dir string) string {
	info, _ := os.Stat(dir)
	for _, p := range h.places {
		if sameFile(info, p.info) || h.pathIn(p, dir, info) != "" {
			return p.path
		}
	}
	return ""
}
