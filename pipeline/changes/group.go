package changes

import (
	"fmt"
	"slices"
	"strings"
)

// Group is one line of a list for people: an entry, or all paths that were added to or removed from a directory.
type Group struct {
	Path    string
	Entries []Entry
}

// Groups returns the entries in their order. More than limit entries form one group if they are all below a directory
// that was added or removed, or were all added to, or all removed from, a directory below the top. Objects of a
// repository form one group at any number. An entry that is held, refused, stale or marked is a group of its own.
func (s Set) Groups(limit int) (groups []Group) {
	type key struct{ verb, dir string }
	keys, counts := make([]key, len(s.Entries)), map[key]int{}
	var outer key // the added or removed path that the next entries may lie in
	for i, e := range s.Entries {
		verb, objects := e.Verb(), strings.Index("/"+e.Path, "/.git/objects/")
		switch {
		case e.Held+e.Refused+e.Mark != "" || e.Stale:
			continue
		case objects >= 0:
			keys[i] = key{dir: e.Path[:objects] + ".git/objects"}
		case verb != "A" && verb != "D":
			continue
		default:
			if verb != outer.verb || !covers(outer.dir, e.Path) {
				outer = key{verb, e.Path}
			}
			keys[i] = outer
		}
		counts[keys[i]]++
	}
	for i, k := range keys {
		if k.verb != "" && counts[k] <= limit && dirOf(k.dir) != "." {
			keys[i] = key{k.verb, dirOf(k.dir)}
			counts[keys[i]]++
		}
	}
	places := map[key]int{}
	for i, e := range s.Entries {
		k := keys[i]
		if counts[k] <= limit && (k.verb != "" || counts[k] < 2) {
			groups = append(groups, Group{e.Path, []Entry{e}})
			continue
		}
		at, known := places[k]
		if !known {
			at = len(groups)
			places[k] = at
			groups = append(groups, Group{Path: k.dir})
		}
		groups[at].Entries = append(groups[at].Entries, e)
	}
	return groups
}

// Verb returns the letter by which git names a change: A is added, D removed, T of another kind, M changed otherwise.
func (e Entry) Verb() string {
	switch {
	case e.Before.Kind == "":
		return "A"
	case e.After.Kind == "":
		return "D"
	case e.Before.Kind != e.After.Kind:
		return "T"
	}
	return "M"
}

// String returns the group as text for people: "A node_modules/ (1605 paths)", "M main.go".
func (g Group) String() string {
	first, count := g.Entries[0], len(g.Entries)
	if count == 1 {
		return first.Verb() + " " + g.Path
	}
	verb := first.Verb()
	if slices.ContainsFunc(g.Entries, func(e Entry) bool { return e.Verb() != verb }) {
		verb = "M"
	}
	if first.Path == g.Path {
		count--
	}
	return fmt.Sprintf("%s %s/ (%d paths)", verb, g.Path, count)
}
