package files

import (
	"path/filepath"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// Guard knows what is refused although a root holds it.
type Guard struct {
	own     backends.Hidden
	ownIDs  []identity
	ours    []string
	private []string // places of credentials in the home folder
}

// NewGuard looks where sandboxmcp's own places are now, and those of credentials in a home folder; "" is no home.
func NewGuard(own []string, home string) Guard {
	g := Guard{own: backends.Hide(own), ours: own, ownIDs: identities(own)}
	for _, name := range privateAtHome {
		if home != "" {
			g.private = append(g.private, filepath.Join(home, name))
		}
	}
	return g
}

// spot is what one access is about, once its root is open.
type spot struct {
	root  Root
	asked string // the path as it was asked for
	real  string // as the kernel has it: the root's links are followed, and there are no others
	base  string // the root as the kernel has it
	kept  kept
}

// kept are the private places that a root does not name, looked up once for each access: a list may be of many folders.
type kept struct {
	places []string
	now    backends.Hidden
	ids    []identity
}

func (g Guard) keep(r Root) kept {
	places := slices.DeleteFunc(slices.Concat(g.private, privateOfSystem), func(place string) bool { return within(r.Path, place) })
	return kept{places, backends.Hide(places), identities(places)}
}

// check refuses by name.
func (g Guard) check(s spot, write bool) error {
	for _, name := range []string{s.asked, s.real} {
		place := g.own.Holds(name)
		for _, o := range g.ours { // what is not there yet is nowhere, and may not be made either
			if within(name, o) {
				place = o
			}
		}
		if place != "" {
			return deny(s.asked, "is, or lies in, %s, which is sandboxmcp's own", place)
		}
	}
	what := s.named(privateNames)
	if what == "" {
		what = s.kept.now.Holds(s.real)
	}
	if what != "" {
		return deny(s.asked, "is kept from agents, as %s may hold credentials: only a root that names it, or what is in it, allows it", what)
	}
	if !write {
		return nil
	}
	if what = s.named(trapNames); what == "" {
		what = s.inside(trapPlaces)
	}
	if what != "" {
		return deny(s.asked, "is not written by agents, as the host runs or obeys %s by itself: only a root for writing that names it, or what is in it, allows it", what)
	}
	return nil
}
