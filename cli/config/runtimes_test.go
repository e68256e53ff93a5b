package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRuntimes: a runtime has what is needed to run its code, and nothing else is passed over.
func TestRuntimes(t *testing.T) {
	load := func(text string) (Config, error) {
		name := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(name, []byte("runtimes:\n  "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{File: name, Env: []string{"HOME=/home/x"}})
	}
	c, err := load("perl: {extensions: [.pl], command: [perl, -w], check: [perl, -c]}\n  c: {extensions: [.c], compile: [cc, -o, \"{program}\", \"{file}\"], command: [\"{program}\"]}")
	want := map[string]Runtime{
		"perl": {Extensions: []string{".pl"}, Command: []string{"perl", "-w"}, Check: []string{"perl", "-c"}},
		"c":    {Extensions: []string{".c"}, Compile: []string{"cc", "-o", "{program}", "{file}"}, Command: []string{"{program}"}},
	}
	if diff := cmp.Diff(want, c.Runtimes); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	var got []string
	for _, s := range c.Origins() {
		if strings.HasPrefix(s.Key, "runtimes.c.") {
			got = append(got, s.Key+" "+s.Value)
		}
	}
	if diff := cmp.Diff([]string{`runtimes.c.extensions [.c]`, `runtimes.c.command ["{program}"]`, `runtimes.c.compile [cc, -o, "{program}", "{file}"]`, `runtimes.c.check []`}, got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"python: {extensions: [.x], command: [x]}":                                       ":2: runtimes.python: this language is built in",
		"A b: {extensions: [.x], command: [x]}":                                          `:2: runtimes: "A b" can't be a name`,
		"x: {extensions: [.x]}":                                                          "runtimes.x: command is missing",
		"x: {command: [x]}":                                                              "runtimes.x: extensions is missing",
		"x: {extensions: [.py], command: [x]}":                                           ".py is an extension of a language that is built in",
		"x: {extensions: [x], command: [x]}":                                             "x is no extension",
		"x: {extensions: [.x], command: [x], kernel: true}":                              "runtimes.x.kernel: unknown key",
		"x: {extensions: [.x], comand: [x]}":                                             `did you mean "command"`,
		"x: {extensions: [.x], command: [\"{program}\"]}":                                "{program} is what compile makes",
		"x: {extensions: [.x], command: [x], check: [\"{program}\"]}":                    "{program} is what compile makes",
		"x: {extensions: [.x], command: [x], compile: [cc]}":                             "compile leaves no {program}",
		"x: {extensions: [.x], command: {a: b}}":                                         "runtimes.x.command",
		"x: [a]":                                                                         "runtimes.x: keys and values are wanted",
		"x: {extensions: [.x], command: [x]}\n  y: {extensions: [.y, .x], command: [y]}": ".x is an extension of runtimes.x already",
		"x: {extensions: [.x], command: [x]}\n  x: {extensions: [.y, .x], command: [y]}": "the key stands in line 2 already",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
