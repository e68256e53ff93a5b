package changes

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var applied = []struct {
	name          string
	before, after map[string]string
}{
	{"edit", map[string]string{"a": "1\n", "d/b": "2\n"}, map[string]string{"a": "one\n", "d/b": "two\n"}},
	{"add", map[string]string{"a": "1"}, map[string]string{"b": "2", "d/e/f": "3", "empty": "/", "none": ""}},
	{"remove", map[string]string{"a": "1", "b": "2", "d/e/f": "3", "d/g": "4"}, map[string]string{"a": "!", "d": "!"}},
	{"executable", map[string]string{"a": "1", "b": "+x 2"}, map[string]string{"a": "+x 1", "b": "2"}},
	{"link", map[string]string{"a": "1", "l": "-> a", "d/x": "1"}, map[string]string{"l": "-> d", "m": "-> d/x", "d/up": "-> ../a",
		"a": "-> l"}},
	{"rename", map[string]string{"a": "some text", "d/b": "other"}, map[string]string{"a": "!", "z": "some text", "d": "!", "e/b": "other"}},
	{"file becomes directory", map[string]string{"a": "1"}, map[string]string{"a/b/c": "2"}},
	{"directory becomes file", map[string]string{"a/b/c": "2", "a/d": "3"}, map[string]string{"a": "1"}},
	{"directory becomes link", map[string]string{"a/b/c": "2", "x": "3"}, map[string]string{"a": "-> x"}},
	{"names", map[string]string{"a\nb": "1", "\xff\xfe": "2", `"q"`: "3", "sp ace": "4", "\x1b[31m": "5"},
		map[string]string{"a\nb": "one", "\xff\xfe": "two", `"q"`: "three", "sp ace": "four", "\x1b[31m": "five", "new\n\xff/\\": "six"}},
	{"deep", map[string]string{"x": "1"}, map[string]string{strings.Repeat("d/", 100) + "f": "2", strings.Repeat("n", 255): "3"}},
}

// afterwards writes a program's changes to the workspace, where a file may replace a directory.
func (p *project) afterwards(files map[string]string) *project {
	for name := range files {
		for up := name; strings.Contains(up, "/"); {
			up = up[:strings.LastIndex(up, "/")]
			if text, was := p.before[up]; was && text != "/" {
				putFile(p.t, p.work, up, "!")
			}
		}
	}
	return p.edit(files)
}

func TestApply(t *testing.T) {
	for _, tt := range applied {
		t.Run(tt.name, func(t *testing.T) {
			p := newProject(t, tt.before).afterwards(tt.after)
			old, now := treeOf(t, p.host), treeOf(t, p.work)
			set := p.propose()
			p.wantTree("after propose", old)
			if again, err := p.store.Get("01"); err != nil || len(again.Entries) != len(set.Entries) {
				t.Fatalf("Get: %v, %d entries, want %d", err, len(again.Entries), len(set.Entries))
			}
			a := p.apply(ApplyOptions{})
			p.wantTree("after apply", now)
			if a.Set.Status != StatusApplied || len(a.Left) > 0 {
				t.Errorf("got %s, left %v", a.Set.Status, a.Left)
			}
			if wrong, err := Verify(t.Context(), set.Entries, p.host, false); err != nil || len(wrong) > 0 {
				t.Errorf("Verify: %v, %v", wrong, err)
			}
			p.undo()
			p.wantTree("after undo", old)
			p.apply(ApplyOptions{})
			p.wantTree("after a second apply", now)
		})
	}
}

// conflicts returns the paths that prevent an apply.
func (p *project) conflicts(o ApplyOptions) (paths []string) {
	p.t.Helper()
	_, err := p.store.Apply(p.t.Context(), "01SET", o)
	return conflictPaths(p.t, err)
}

func conflictPaths(t testing.TB, err error) (paths []string) {
	t.Helper()
	c, ok := errors.AsType[*Conflicts](err)
	if !ok {
		t.Fatalf("got %v, want conflicts", err)
	}
	for _, x := range c.List {
		paths = append(paths, x.Path)
	}
	return paths
}

// A change of the host after Propose is a conflict, and nothing is applied.
func TestConflicts(t *testing.T) {
	before := map[string]string{"a": "1", "b": "2", "d/e": "3", "d/f/g": "4", "l": "-> a"}
	after := map[string]string{"a": "one", "b": "!", "d": "!", "l": "-> b", "n/o": "5", "n/p": "6"}
	tests := []struct {
		name string
		host map[string]string
		want []string
	}{
		{"a file edited", map[string]string{"a": "uno"}, []string{"a"}},
		{"its mode", map[string]string{"a": "+x 1"}, []string{"a"}},
		{"a file removed", map[string]string{"a": "!"}, []string{"a"}},
		{"removed as well", map[string]string{"b": "!"}, nil},
		{"edited where it is removed", map[string]string{"b": "dos"}, []string{"b"}},
		{"a file more in a directory that is removed", map[string]string{"d/new": "x"}, []string{"d"}},
		{"deeper", map[string]string{"d/f/new": "x"}, []string{"d/f"}},
		{"a link in place of a directory", map[string]string{"d": "-> /etc"}, []string{"d"}},
		{"another link", map[string]string{"l": "-> x"}, []string{"l"}},
		{"made meanwhile", map[string]string{"n/o": "other"}, []string{"n/o"}},
		{"the same made meanwhile", map[string]string{"n/o": "5"}, nil},
		{"a file where a directory comes", map[string]string{"n": "x"}, []string{"n", "n/o", "n/p"}},
		{"a link where a directory comes", map[string]string{"n": "-> /tmp"}, []string{"n", "n/o", "n/p"}},
		{"several", map[string]string{"a": "uno", "b": "dos"}, []string{"a", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newProject(t, before).edit(after)
			p.propose()
			for name, text := range tt.host {
				putFile(t, p.host, name, text)
			}
			old := treeOf(t, p.host)
			if tt.want == nil {
				p.apply(ApplyOptions{})
				if got, want := treeOf(t, p.host), treeOf(t, p.work); untimed(got) != untimed(want) {
					t.Errorf("got %s, want %s", got, want)
				}
				return
			}
			if got := p.conflicts(ApplyOptions{}); !slices.Equal(got, tt.want) {
				t.Errorf("got conflicts %q, want %q", got, tt.want)
			}
			p.wantTree("after a conflict", old)
		})
	}
}

var nanoseconds = regexp.MustCompile(` \d+\n`)

func untimed(tree string) string { return nanoseconds.ReplaceAllString(tree, "\n") }

// The program may not have seen a change that the host made while the program ran.
func TestStale(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1", "b": "2"}).edit(map[string]string{"a": "one", "b": "!"})
	proposal := p.proposal("01SET")
	proposal.Began = time.Now().Add(-time.Minute)
	set, err := p.store.Propose(t.Context(), proposal)
	if err != nil || set.Summary().Stale != 2 {
		t.Fatalf("%v, %+v", err, set.Summary())
	}
	for _, merge := range []bool{false, true} {
		if got := p.conflicts(ApplyOptions{Merge: merge}); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("got conflicts %q", got)
		}
	}
	p.apply(ApplyOptions{Merge: true, Paths: []string{"a", "b"}})
	if got, want := treeOf(t, p.host), treeOf(t, p.work); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMergeOnApply(t *testing.T) {
	lines := "1\n2\n3\n4\n5\n6\n7\n8\n"
	p := newProject(t, map[string]string{"a": lines, "b": lines, "c": "\x00\x01"}).
		edit(map[string]string{"a": "one\n" + lines[2:], "b": "one\n" + lines[2:], "c": "\x00\x02"})
	p.propose()
	putFile(t, p.host, "a", lines[:14]+"eight\n")
	putFile(t, p.host, "b", "uno\n"+lines[2:])
	putFile(t, p.host, "c", "\x00\x03")
	old := treeOf(t, p.host)
	if got := p.conflicts(ApplyOptions{}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got conflicts %q", got)
	}
	if got := p.conflicts(ApplyOptions{Merge: true}); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("got conflicts %q with Merge", got)
	}
	p.wantTree("after conflicts", old)
	a := p.apply(ApplyOptions{Merge: true, Paths: []string{"a", "b", "c"}})
	if !slices.Equal(a.Merged, []string{"a"}) {
		t.Errorf("got merged %q", a.Merged)
	}
	for name, want := range map[string]string{"a": "one\n" + lines[2:14] + "eight\n", "b": "one\n" + lines[2:], "c": "\x00\x02"} {
		if got, err := os.ReadFile(filepath.Join(p.host, name)); string(got) != want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	p.undo()
	p.wantTree("after undo", old)
}

// One apply takes some paths, another the rest; one undo restores all.
func TestApplyPaths(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1", "d/e": "2", "d/f": "3"}).
		edit(map[string]string{"a": "one", "d": "!", "n/o/p": "4", "n/q": "5", ".envrc": "6", "n/.git/hooks/pre-push": "7"})
	old := treeOf(t, p.host)
	p.propose()
	for _, step := range []struct {
		o       ApplyOptions
		applied []string
		left    []string
	}{
		{ApplyOptions{Paths: []string{"n/o/p"}}, []string{"n", "n/o", "n/o/p"}, nil},
		{ApplyOptions{Paths: []string{"d/e"}}, []string{"d/e"}, nil},
		{ApplyOptions{Paths: []string{"n"}}, []string{"n/.git", "n/q"}, []string{"n/.git/hooks", "n/.git/hooks/pre-push"}},
		{ApplyOptions{}, []string{"a", "d", "d/f"}, []string{".envrc", "n/.git/hooks", "n/.git/hooks/pre-push"}},
		{ApplyOptions{Paths: []string{".envrc", "n/.git/hooks"}}, []string{".envrc", "n/.git/hooks", "n/.git/hooks/pre-push"}, nil},
		{ApplyOptions{}, nil, nil},
	} {
		a := p.apply(step.o)
		var left []string
		for _, c := range a.Left {
			left = append(left, c.Path)
		}
		if !slices.Equal(a.Paths, step.applied) || !slices.Equal(left, step.left) {
			t.Errorf("%+v: applied %q, left %q; want %q, %q", step.o, a.Paths, left, step.applied, step.left)
		}
	}
	if got, want := treeOf(t, p.host), treeOf(t, p.work); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := p.conflicts(ApplyOptions{Paths: []string{"nowhere"}}); !slices.Equal(got, []string{"nowhere"}) {
		t.Errorf("a path that is none: %q", got)
	}
	p.undo()
	p.wantTree("after undo", old)
	if _, err := p.store.Undo(t.Context(), "01SET"); err == nil {
		t.Error("a second undo does something")
	}
}

func TestUndoConflicts(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1", "b": "2", "c": "3"}).edit(map[string]string{"a": "one", "b": "!", "n/o": "4"})
	p.propose()
	p.apply(ApplyOptions{})
	for name, text := range map[string]string{"a": "uno", "b": "dos", "n/o": "cuatro", "n/p": "more"} {
		putFile(t, p.host, name, text)
	}
	old := treeOf(t, p.host)
	_, err := p.store.Undo(t.Context(), "01SET")
	if got := conflictPaths(t, err); !slices.Equal(got, []string{"n/o", "a", "b", "n"}) {
		t.Errorf("got conflicts %q", got)
	}
	p.wantTree("after a conflict", old)
}

func TestDrop(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1"}).edit(map[string]string{"a": "one"})
	p.propose()
	if err := p.store.Drop(t.Context(), "01SET"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.store.Apply(t.Context(), "01SET", ApplyOptions{}); err == nil {
		t.Error("what was dropped can be applied")
	}
	sets, err := p.store.List(Filter{Dir: p.host})
	if err != nil || len(sets) != 1 || sets[0].Status != StatusDropped || sets[0].Summary().Changed != 1 {
		t.Errorf("List: %+v, %v", sets, err)
	}
}
