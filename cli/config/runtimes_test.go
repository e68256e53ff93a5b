package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRuntimes checks that a runtime has all required keys, and that others are refused.
func TestRuntimes(t *testing.T) {
	load := func(text string) (Config, error) {
		name := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(name, []byte("runtimes:\n  "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{File: name, Env: []string{"HOME=/home/x"}})
	}
	driver, empty := filepath.Join(t.TempDir(), "kernel.pl"), filepath.Join(t.TempDir(), "empty.pl")
	for name, text := range map[string]string{driver: "text\n", empty: ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := load("perl: {extensions: [.pl], command: [perl, -w], check: [perl, -c], kernel: [perl, \"{driver}\"], driver: " + driver +
		"}\n  c: {extensions: [.c], compile: [cc, -o, \"{program}\", \"{file}\"], command: [\"{program}\"]}")
	want := map[string]Runtime{
		"perl": {Extensions: []string{".pl"}, Command: []string{"perl", "-w"}, Check: []string{"perl", "-c"},
			Kernel: []string{"perl", "{driver}"}, Driver: driver, Source: "text\n"},
		"c": {Extensions: []string{".c"}, Compile: []string{"cc", "-o", "{program}", "{file}"}, Command: []string{"{program}"}},
	}
	if diff := cmp.Diff(want, c.Runtimes); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	var got []string
	for _, s := range c.Origins() {
		if strings.HasPrefix(s.Key, "runtimes.c.") || strings.HasSuffix(s.Key, "l.driver") {
			got = append(got, s.Key+" "+s.Value)
		}
	}
	if diff := cmp.Diff([]string{`runtimes.c.extensions [.c]`, `runtimes.c.command ["{program}"]`,
		`runtimes.c.compile [cc, -o, "{program}", "{file}"]`, `runtimes.c.check []`, `runtimes.c.kernel []`, "runtimes.perl.driver " + driver},
		got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"python: {extensions: [.x], command: [x]}": ":2: runtimes.python: this language is built in",
		"A b: {extensions: [.x], command: [x]}":    `:2: runtimes: "A b" can't be a name`,
		"x: {extensions: [.x]}":                    "runtimes.x: command is missing",
		"x: {command: [x]}":                        "runtimes.x: extensions is missing",
		"x: {extensions: [.py], command: [x]}": ".py is an extension of a language that " +
			"is built in",
		"x: {extensions: [x], command: [x]}":                "x is not an extension",
		"x: {extensions: [.x], command: [x], kernal: [x]}":  `:2: runtimes.x.kernal: unknown key (did you mean "kernel"?)`,
		"x: {extensions: [.x], command: [x], kernel: true}": ":2: runtimes.x.kernel: expected a list of names",
		"x: {extensions: [.x], command: [x], kernel: [x, \"{file}\"]}": ":2: runtimes.x: kernel starts before " +
			"there is code",
		"x: {extensions: [.x], command: [x], kernel: [\"{program}\"]}": "kernel starts before there is code",
		"x: {extensions: [.x], command: [x], kernel: [x, \"{driver}\"]}": "driver and the word {driver} of kernel " +
			"go together",
		"x: {extensions: [.x], command: [x], kernel: [x], driver: " + driver + "}": "driver and the word {driver} of kernel " +
			"go together",
		"x: {extensions: [.x], command: [x], driver: " + driver + "}": "driver and the word {driver} of kernel " +
			"go together",
		"x: {extensions: [.x], command: [x], kernel: [\"{driver}\"], driver: x.pl}": ":2: runtimes.x.driver: ",
		"x: {extensions: [.x], command: [x], kernel: [\"{driver}\"], driver: /none/x.pl}": ":2: runtimes.x.driver: open /none/x.pl: " +
			"no such file",
		"x: {extensions: [.x], command: [x], kernel: [\"{driver}\"], driver: " + empty + "}": ":2: runtimes.x.driver: " + empty + " has 0 bytes",
		"x: {extensions: [.x], comand: [x]}":                                                 `did you mean "command"`,
		"x: {extensions: [.x], command: [\"{program}\"]}":                                    "{program} is what compile makes",
		"x: {extensions: [.x], command: [x], check: [\"{program}\"]}":                        "{program} is what compile makes",
		"x: {extensions: [.x], command: [x], compile: [cc]}":                                 "compile leaves no {program}",
		"x: {extensions: [.x], command: {a: b}}":                                             "runtimes.x.command",
		"x: [a]":                                                                             "runtimes.x: expected keys and values",
		"x: {extensions: [.x], command: [x]}\n  y: {extensions: [.y, .x], command: [y]}":     ".x is an extension of runtimes.x already",
		"x: {extensions: [.x], command: [x]}\n  x: {extensions: [.y, .x], command: [y]}":     "the key is already in line 2",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
