package files

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/paths"
	"github.com/sandboxmcp/sandboxmcp/pipeline/host/trap"
)

// Guard knows what is refused although a root holds it.
type Guard struct {
	own     backends.Hidden
	ownIDs  []identity
	ours    []string
	private []string // places of credentials in the home directory
	traps   []string // names of what the host obeys, and behind them its places
	obeyed  []string
}

// NewGuard looks where sandboxmcp's own places are now, and those of credentials in a home directory; "" is no home.
// obeyed is what programs of this machine take commands from, besides what is known here: absolute paths, and names of
// files in any directory.
func NewGuard(own []string, home string, obeyed []string) Guard {
	g := Guard{own: backends.LocateHidden(own), ours: own, ownIDs: identities(own)}
	for _, name := range obeyed {
		if !filepath.IsAbs(name) {
			g.traps = append(g.traps, strings.ToLower(name))
			continue
		}
		g.obeyed = append(g.obeyed, name)
		if dir, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil { // what is not there yet may not be made either
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

// spot is what one access is about, once its root is open.
type spot struct {
	root    Root
	asked   string // the path as it was asked for
	real    string // as the kernel has it: the root's links are followed, and there are no others
	base    string // the root as the kernel has it
	private privatePlaces
}

// privatePlaces are the private places that a root does not name, looked up once for each access: a list may be of many
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

// check refuses by name.
func (g Guard) check(s spot, write bool) error {
	for _, name := range []string{s.asked, s.real} {
		place := g.own.PlaceAround(name)
		for _, o := range g.ours { // what is not there yet is nowhere, and may not be made either
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
		return deny(s.asked, "is not written by agents, as the host may run or obey %s by itself: only a root for writing that names it, or what is in it, allows it", what)
	}
	return nil
}
