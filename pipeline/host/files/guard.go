package files

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/trap"
)

// Guard refuses files even though a root covers them.
type Guard struct {
	own     backends.Hidden
	ownIDs  []identity
	ours    []string
	private []string // paths of credentials in the home directory
	traps   []string // names of files that the host obeys, then their paths
	obeyed  []string
}

// NewGuard locates sandboxmcp's own files, and the credentials in a home directory; "" is no home. obeyed are further
// files that programs of this machine obey: absolute paths, and names in any directory.
func NewGuard(own []string, home string, obeyed []string) Guard {
	g := Guard{own: backends.LocateHidden(own), ours: own, ownIDs: identities(own)}
	for _, name := range obeyed {
		if !filepath.IsAbs(name) {
			g.traps = append(g.traps, strings.ToLower(name))
			continue
		}
		g.obeyed = append(g.obeyed, name)
		if dir, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil { // a missing file must not be created either
			g.obeyed = append(g.obeyed, filepath.Join(dir, filepath.Base(name)))
		}
		if real, err := filepath.EvalSymlinks(name); err == nil {
			g.obeyed = append(g.obeyed, real)
		}
	}
	for _, name := range privateAtHome {
		if home != "" {
			g.private = append(g.private, filepath.Join(home, name))
		}
	}
	return g
}

// spot is the target of one access, once its root is open.
type spot struct {
	root    Root
	asked   string // the requested path
	real    string // the kernel's path: the root's links are resolved, and there are no others
	base    string // the root in the kernel's path
	private privatePlaces
}

// privatePlaces are the private places that a root does not name, looked up once per access: a list may cover many
// directories.
type privatePlaces struct {
	places []string
	now    backends.Hidden
	ids    []identity
}

func (g Guard) privatePlaces(r Root) privatePlaces {
	places := slices.DeleteFunc(slices.Concat(g.private, privateOfSystem), func(place string) bool { return paths.Within(r.Path, place) })
	return privatePlaces{places, backends.LocateHidden(places), identities(places)}
}

// check refuses a spot by its name.
func (g Guard) check(s spot, write bool) error {
	for _, name := range []string{s.asked, s.real} {
		place := g.own.PlaceAround(name)
		for _, o := range g.ours { // missing files have no real path, and must not be created either
			if paths.Within(name, o) {
				place = o
			}
		}
		if place != "" {
			return deny(s.asked, "is, or is in, %s, which belongs to sandboxmcp", place)
		}
	}
	what := s.named(privateNames)
	if what == "" {
		what = s.private.now.PlaceAround(s.real)
	}
	if what != "" {
		return deny(s.asked, "is kept from agents, as %s may hold credentials: only a root that names it, or what is in it, allows it", what)
	}
	if !write {
		return nil
	}
	if what = s.named(slices.Concat(trap.Names, g.traps)); what == "" {
		what = s.inside(slices.Concat(trap.Places, g.obeyed))
	}
	if what != "" {
		return deny(s.asked, "is not written by agents, as the host may run or obey %s by itself: only a root for writing that names it, or "+
			"what is in it, allows it", what)
	}
	return nil
}
