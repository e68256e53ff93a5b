package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestWorkspaces(t *testing.T) {
	load := func(text string) (Config, error) {
		name := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(name, []byte("workspaces:\n  "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{File: name, Env: []string{"HOME=/home/x"}})
	}
	c, err := load("app: ~/app\n  docs: {path: /srv/docs, changes: read, namespaces: [team]}")
	want := map[string]Workspace{"app": {Path: "/home/x/app", Changes: "ask"}, "docs": {"/srv/docs", "read", []string{"team"}}}
	if err != nil || !reflect.DeepEqual(c.Workspaces, want) {
		t.Errorf("got %v %v", c.Workspaces, err)
	}
	for text, want := range map[string]string{
		"A: /srv":                    `:2: workspaces: "A" can't be a name`,
		"a: {changes: ask}":          ":2: workspaces.a: a workspace needs a path",
		"a: {path: /b, changes: no}": "workspaces.a.changes: ",
		"a: {path: /b, mode: rw}":    "workspaces.a.mode: unknown key: a workspace has path, changes and namespaces",
		"a: srv":                     "workspaces.a.path: ",
		"a: /b\n  a: /c":             "the key is already in line 2",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

func TestParseWorkspace(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link:ask")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	got := map[string]Workspace{}
	for _, text := range []string{"app=" + dir, "auto=" + dir + ":apply", "odd=" + link + ":read"} {
		name, w, err := ParseWorkspace(text)
		if err != nil {
			t.Error(err)
		}
		got[name] = w
	}
	want := map[string]Workspace{"app": {Path: dir, Changes: "ask"}, "auto": {Path: dir, Changes: "apply"},
		"odd": {Path: dir, Changes: "read"}}
	if !maps.EqualFunc(got, want, func(a, b Workspace) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("got %v", got)
	}
	for _, text := range []string{"", "app", "app=", "A=/", "app=/nowhere/at/all", "=/"} {
		if _, w, err := ParseWorkspace(text); err == nil {
			t.Errorf("%q: got %v", text, w)
		}
	}
}
