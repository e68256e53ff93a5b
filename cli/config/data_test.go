package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestData checks that data maps names to directories, and accepts nothing else.
func TestData(t *testing.T) {
	load := func(text string) (Config, error) {
		name := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(name, []byte("data:\n  "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{File: name, Env: []string{"HOME=/home/x"}})
	}
	c, err := load("sets: /srv/sets\n  own: ~/data")
	if want := map[string]string{"sets": "/srv/sets", "own": "/home/x/data"}; err != nil || !maps.Equal(c.Data, want) {
		t.Errorf("got %v %v", c.Data, err)
	}
	for text, want := range map[string]string{
		"A: /srv":         `:2: data: "A" can't be a name`,
		"a: 7":            ":2: data.a: expected text",
		"a: [/srv]":       "data.a: expected one value",
		"a: srv/sets":     "data.a: ",
		"a: /b\n  a: /c":  "the key is already in line 2",
		"a: {path: /srv}": "data.a",
		"- /srv":          "data: expected keys and values",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
