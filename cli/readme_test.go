package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/sandboxmcp/sandboxmcp/cli/cmdline"
	"github.com/sandboxmcp/sandboxmcp/cli/command"
	"github.com/sandboxmcp/sandboxmcp/cli/markdowntest"
)

// eachReadme calls f with each Markdown file of the repository, by its path.
func eachReadme(t *testing.T, f func(path, text string)) {
	markdowntest.Files(t, "..", func(name string) {
		path := filepath.Join("..", name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f(path, string(text))
	})
}

// TestReadmeCommands parses each line of a README that begins with a prompt: its commands and flags must exist.
func TestReadmeCommands(t *testing.T) {
	app := (&program{Streams: &command.Streams{Out: io.Discard, Err: io.Discard}}).app()
	typed := 0
	eachReadme(t, func(path, text string) {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			code, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if !prompt {
				continue
			}
			file, err := syntax.NewParser().Parse(strings.NewReader(code), "")
			for n := i + 1; err != nil && syntax.IsIncomplete(err) && n < len(lines); n++ {
				code += "\n" + lines[n]
				file, err = syntax.NewParser().Parse(strings.NewReader(code), "")
			}
			if err != nil {
				t.Errorf("%s: %q: %v", path, code, err)
				continue
			}
			syntax.Walk(file, func(node syntax.Node) bool {
				call, ok := node.(*syntax.CallExpr)
				if !ok || len(call.Args) == 0 || call.Args[0].Lit() != "sandboxmcp" {
					return true
				}
				args, err := expand.Fields(nil, call.Args...)
				if err == nil {
					_, err = cmdline.Parse(app, args)
				}
				if typed++; err != nil {
					t.Errorf("%s: %q: %v", path, code, err)
				}
				return true
			})
		}
	})
	if typed < 40 {
		t.Errorf("only %d commands were found", typed)
	}
}

// TestReadmeLinks checks that linked files and headings exist, that the first README is short enough for a front page,
// and this package's can be read.
func TestReadmeLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):]*)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.+)$`)
	eachReadme(t, func(path, text string) {
		if path == filepath.Join("..", "README.md") && len(text) > 9000 {
			t.Errorf("%s has %d bytes: details belong into the directories' own", path, len(text))
		}
		if path == filepath.Join("..", "cli", "README.md") && len(text) > 80<<10 {
			t.Errorf("%s has %d bytes: details belong into the help of commands", path, len(text))
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, fragment, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			there, err := os.ReadFile(target)
			if info, dir := os.Stat(target); dir == nil && info.IsDir() {
				err = nil
			}
			found := fragment == ""
			for _, h := range heading.FindAllStringSubmatch(string(there), -1) {
				found = found || strings.ReplaceAll(strings.ToLower(h[1]), " ", "-") == fragment
			}
			if err != nil || !found {
				t.Errorf("%s: %s leads nowhere: %v", path, m[1], err)
			}
		}
	})
}
