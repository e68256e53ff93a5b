package page

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sandboxmcp/sandboxmcp/pipeline/changes"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// changedPath is a line of a change set.
type changedPath struct {
	changes.Entry
	Kind     string // "added", "changed" or "removed"
	Separate bool   // it can be chosen by itself
	Selected bool
}

// maxChangedPaths bounds the paths that a page lists, and among which a person chooses.
const maxChangedPaths = 1000

// diffLine is a line of a difference, with the class that colors it.
type diffLine struct{ Class, Text string }

// changes lists the change sets, or shows one of them.
func (p *Page) changes(w http.ResponseWriter, r *http.Request, v *visitor) error {
	id := r.URL.Query().Get("id")
	if id == "" {
		list, err := control.Call(r.Context(), p.c.Client, control.ListChanges, control.ChangesQuery{})
		if err != nil {
			return err
		}
		return p.renderSection(w, v, "changes", wordFor("changes"), map[string]any{"Sets": list[:min(len(list), maxChangedPaths)]})
	}
	set, err := control.Call(r.Context(), p.c.Client, control.GetChanges, control.OfChanges{ID: id})
	if err != nil {
		return err
	}
	data := map[string]any{"Set": set, "Paths": changedPaths(set), "More": max(0, len(set.Entries)-maxChangedPaths)}
	if set.Status != changes.StatusDropped {
		diff, err := control.Call(r.Context(), p.c.Client, control.DiffChanges, control.ChangesPart{OfChanges: control.OfChanges{ID: set.ID}})
		if err != nil {
			return err
		}
		data["Diff"] = diffLines(diff.Diff)
	}
	return p.renderSection(w, v, "change_set", wordFor("changes"), data)
}

// changedPaths returns the first paths of a change set. The choice of a directory includes its content.
func changedPaths(set changes.Set) (all []changedPath) {
	for i, e := range set.Entries[:min(len(set.Entries), maxChangedPaths)] {
		c := changedPath{Entry: e, Kind: "changed"}
		switch {
		case e.Before.Kind == "":
			c.Kind = "added"
		case e.After.Kind == "":
			c.Kind = "removed"
		}
		holds := i+1 < len(set.Entries) && strings.HasPrefix(set.Entries[i+1].Path, e.Path+"/")
		c.Separate = e.Refused == "" && !e.Applied && !holds && utf8.ValidString(e.Path)
		c.Selected = e.Held == "" && !e.Stale
		all = append(all, c)
	}
	return all
}

// maxDiffLines bounds the lines of a difference on a page; the rest is read at the command line.
const maxDiffLines = 20_000

func diffLines(diff string) (lines []diffLine) {
	for text := range strings.Lines(diff) {
		if len(lines) == maxDiffLines {
			return append(lines, diffLine{"file", wordFor("diff_cut")})
		}
		line := diffLine{Text: strings.TrimSuffix(text, "\n")}
		switch {
		case strings.HasPrefix(text, "diff --git "):
			line.Class = "file"
		case strings.HasPrefix(text, "@@"):
			line.Class = "at"
		case strings.HasPrefix(text, "+"):
			line.Class = "plus"
		case strings.HasPrefix(text, "-"):
			line.Class = "minus"
		}
		lines = append(lines, line)
	}
	return lines
}

// decideChanges applies, undoes or drops a change set.
func (p *Page) decideChanges(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	f := r.PostForm
	of := control.OfChanges{ID: f.Get("id")}
	var err error
	switch f.Get("how") {
	case "apply":
		if len(f["path"]) == 0 {
			return door.Refuse(http.StatusBadRequest, wordFor("no_path"))
		}
		_, err = control.Call(r.Context(), p.c.Client, control.ApplyChanges, control.ChangesPart{OfChanges: of, Paths: slices.Compact(f["path"]),
			Merge: f.Has("merge")})
	case "apply_all":
		_, err = control.Call(r.Context(), p.c.Client, control.ApplyChanges, control.ChangesPart{OfChanges: of, Merge: f.Has("merge")})
	case "undo":
		_, err = control.Call(r.Context(), p.c.Client, control.UndoChanges, of)
	case "drop":
		_, err = control.Call(r.Context(), p.c.Client, control.DropChanges, of)
	default:
		return door.Refuse(http.StatusBadRequest, wordFor("old_page"))
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", "changes?id="+url.QueryEscape(of.ID))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}
