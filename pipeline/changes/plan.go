package changes

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"
	"time"
)

// plan chooses the entries of a set for an apply, and makes steps of them.
type plan struct {
	ctx       context.Context
	o         ApplyOptions
	tree      *tree
	content   *pack
	entries   []Entry
	chosen    []bool
	by        map[string]int  // entries by path
	named     map[string]bool // the paths of o; true once a path matches an entry
	steps     []step
	conflicts []Conflict
	merged    []string
	left      []Conflict
}

func newPlan(ctx context.Context, o ApplyOptions, t *tree, content *pack, entries []Entry) (*plan, error) {
	p := &plan{ctx: ctx, o: o, tree: t, content: content, entries: entries, chosen: make([]bool, len(entries)), by: map[string]int{},
		named: map[string]bool{}}
	for i, e := range entries {
		p.by[e.Path] = i
	}
	for _, name := range o.Paths {
		p.named[name] = name == "."
	}
	p.choose()
	for _, name := range o.Paths {
		if !p.named[name] {
			p.conflicts = append(p.conflicts, Conflict{name, "is not part of the change set"})
		}
	}
	if err := p.build(); err != nil {
		return nil, err
	}
	return p, nil
}

func covers(named, name string) bool {
	return named == "." || named == name || strings.HasPrefix(name, named+"/")
}

// isNamed reports whether an entry is named or lies in a named directory. An entry that is held is released if it is
// named itself, or together with a directory that is held, too. Naming a project does not name the hooks in it.
func (p *plan) isNamed(e Entry) (named, released bool) {
	if len(p.named) == 0 {
		return true, p.o.Held
	}
	released = p.o.Held
	for n := e.Path; ; n = dirOf(n) {
		if _, is := p.named[n]; is {
			p.named[n], named = true, true
			released = released || n == e.Path || e.Held != "" && n != "." && (heldBecause(n) != "" || path.Base(n) == ".git")
		}
		if n == "." {
			return named, released
		}
	}
}

func (p *plan) choose() {
	for i, e := range p.entries {
		named, released := p.isNamed(e)
		if e.Applied || !named {
			continue
		}
		switch {
		case e.Refused != "":
			p.left = append(p.left, Conflict{e.Path, e.Refused})
		case e.Held != "" && !released:
			p.left = append(p.left, Conflict{e.Path, e.Held})
		default:
			p.chosen[i] = true
		}
	}
	needed := map[string]bool{} // directories that contain a chosen entry
	// A directory is removed only together with all its content, and created together with the chosen part of its
	// content.
	for i := len(p.entries) - 1; i >= 0; i-- {
		e := p.entries[i]
		if up, ok := p.by[dirOf(e.Path)]; ok && p.entries[up].Refused == "" && !p.entries[up].Applied {
			stays := !p.chosen[i] && !e.Applied && e.Before.Kind != ""
			if d := p.entries[up]; d.After.Kind != Directory && stays && p.chosen[up] {
				p.chosen[up] = false
				p.left = append(p.left, Conflict{d.Path, "something in it stays"})
			} else if d.After.Kind == Directory && d.Before.Kind != Directory && p.chosen[i] && e.After.Kind != "" {
				p.chosen[up], needed[d.Path] = true, true
			}
		}
	}
	p.left = slices.DeleteFunc(p.left, func(c Conflict) bool { return needed[c.Path] })
}

// build makes the steps: the first make directories writable, the next remove paths from the leaves upwards, others put
// new files in place from the root downwards, and the last give directories their final mode.
func (p *plan) build() error {
	var first, removals, puts, last []step
	for i, e := range p.entries {
		if !p.chosen[i] {
			continue
		}
		s, err := p.resolve(e)
		if err != nil {
			return err
		}
		if s == nil {
			continue
		}
		const own = 0o700
		if s.From.Kind == Directory {
			open := s.From
			if open.Mode |= own; s.To.Kind == Directory {
				open.Mode = s.To.Mode | own
			}
			if !same(open, s.From) {
				first = append(first, step{Path: s.Path, From: s.From, To: open, old: s.old})
				s.From = open
			}
		}
		if end := s.To; end.Kind == Directory && end.Mode&own != own {
			s.To.Mode |= own
			last = append(last, step{Path: s.Path, From: s.To, To: end})
		}
		switch {
		case same(s.From, s.To):
		case s.To.Kind == "":
			removals = append(removals, *s)
		default:
			puts = append(puts, *s)
		}
	}
	slices.Reverse(removals)
	slices.Reverse(last)
	p.steps = slices.Concat(first, removals, puts, last)
	return p.check()
}

// resolve compares an entry with the host's present state, and returns the step that is needed, nil for none.
func (p *plan) resolve(e Entry) (*step, error) {
	now, info, err := p.tree.state(p.ctx, e.Path)
	if err != nil {
		if p.ctx.Err() != nil {
			return nil, context.Cause(p.ctx)
		}
		p.conflicts = append(p.conflicts, Conflict{e.Path, "can't be read: " + bare(err).Error()})
		return nil, nil
	}
	if same(now, e.After) || now.Kind == Directory && e.After.Kind == Directory && e.Before.Kind != Directory {
		return nil, nil
	}
	s := &step{Path: name(e.Path), From: now, To: e.After, Modified: e.Modified, old: info}
	if info != nil {
		s.Was = info.ModTime()
	}
	if !e.Stale && (same(now, e.Before) || p.isSameIndex(s, e.Before)) {
		return s, nil
	}
	why := "has changed since the program saw it"
	if now.Kind == "" {
		why = "is gone since the program saw it"
	} else if e.Before.Kind == "" {
		why = "is there by now"
	}
	switch {
	case !p.o.Merge:
	case p.mergeInto(s, e):
		p.merged = append(p.merged, e.Path)
		s.Modified = time.Time{}
		return s, nil
	case slices.Contains(p.o.Paths, e.Path) && now.Kind != Other && (now.Kind == Directory) == (e.Before.Kind == Directory):
		return s, p.keep(s)
	}
	p.conflicts = append(p.conflicts, Conflict{e.Path, why})
	return nil, nil
}

// mergeInto sets To to the merge of both sides' changes. It refuses a stale entry: nobody knows which content of the
// host the program saw.
func (p *plan) mergeInto(s *step, e Entry) bool {
	base, okBase := p.content.read(e.Before, maxText)
	theirs, okTheirs := p.content.read(e.After, maxText)
	if e.Stale || e.Before.Kind != File || s.From.Kind != File || e.After.Kind != File || !okBase || !okTheirs {
		return false
	}
	mode := e.After.Mode
	if e.After.Mode == e.Before.Mode {
		mode = s.From.Mode
	} else if s.From.Mode != e.Before.Mode && s.From.Mode != e.After.Mode {
		return false
	}
	if p.keep(s) != nil {
		return false
	}
	ours, ok := p.content.read(s.From, maxText)
	if !ok {
		return false
	}
	text, ok := merge(base, ours, theirs)
	if !ok {
		return false
	}
	to, err := p.content.add(text)
	to.Mode = mode
	s.To = to
	return err == nil
}

// isSameIndex reports whether git on the host only refreshed its index, and stores the present index.
func (p *plan) isSameIndex(s *step, want State) bool {
	if !isIndex(string(s.Path)) || s.From.Kind != File || want.Kind != File || s.From.Mode != want.Mode || s.From.Size > maxIndex ||
		p.keep(s) != nil {
		return false
	}
	now, okNow := p.content.read(s.From, maxIndex)
	was, okWas := p.content.read(want, maxIndex)
	return okNow && okWas && sameIndex(now, was)
}

// keep stores the host's present content, so that an undo can restore it.
func (p *plan) keep(s *step) error {
	if s.From.Kind != File || p.content.has(s.From) {
		return nil
	}
	w, err := p.content.writer()
	if err != nil {
		return err
	}
	now, info, err := p.tree.state(p.ctx, string(s.Path), w)
	if err != nil {
		return err
	}
	if !same(now, s.From) {
		return errReplaced
	}
	s.old = info
	return w.commit(now.SHA256)
}

// check adds the conflicts between steps and the directories around them.
func (p *plan) check() error {
	top, err := mountOf(p.tree.top)
	if err != nil {
		return err
	}
	made, gone := map[string]bool{}, map[string]bool{}
	checked := map[string]string{".": ""} // by directory, why no step may write there
	for _, s := range p.steps {
		full := string(s.Path)
		dir := dirOf(full)
		why, known := checked[dir]
		if !known && !made[dir] {
			if why, err = p.checkDir(dir, top); err != nil {
				return err
			}
			checked[dir] = why
		}
		if why == "" && s.From.Kind == Directory && s.To.Kind != Directory {
			why = p.checkEmpty(full, top, gone)
		}
		if why != "" {
			p.conflicts = append(p.conflicts, Conflict{full, why})
		}
		made[full] = s.To.Kind == Directory && s.From.Kind != Directory
		gone[full] = s.To.Kind == ""
	}
	return nil
}

// checkDir returns why nothing can be put into a directory.
func (p *plan) checkDir(dir, top string) (string, error) {
	d, err := p.tree.dir(dir)
	if isNothing(err) {
		return "has no directory any more", nil
	}
	if err != nil {
		return "", err
	}
	mount, err := mountOf(d)
	if err == nil && mount != top {
		return "lies in another file system that is mounted there", nil
	}
	return "", err
}

// checkEmpty returns why a directory can't be removed after the removal of the paths in gone.
func (p *plan) checkEmpty(dir, top string, gone map[string]bool) string {
	d, err := p.tree.dir(dir)
	if err == nil {
		var mount string
		if mount, err = mountOf(d); err == nil && mount != top {
			return "is another file system that is mounted there"
		}
	}
	names, err2 := p.tree.names(dir)
	if err := errors.Join(err, err2); err != nil {
		return "can't be read: " + bare(err).Error()
	}
	for _, n := range names {
		if !gone[dir+"/"+n] {
			return "has something in it that is not part of the change set: " + quoteName(n)
		}
	}
	return ""
}
