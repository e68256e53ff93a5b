//go:build unix

package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sandboxmcp/sandboxmcp/cli/markdowntest"
)

var updateFlag = flag.Bool("update", false, "write output that differs into the Markdown files")

// TestConsole runs each console block of each Markdown file. Their scripts, data and shell preludes are in
// testdata/console. Package cli/enginecheck runs blocks that need containers.
func TestConsole(t *testing.T) {
	requireFeatures(t, "sandbox", "python", "bash")
	const root = "../.."
	ran := 0
	markdowntest.Files(t, root, func(name string) {
		ran++
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			env := &testscript.Env{WorkDir: dir, Vars: os.Environ()}
			if err := setup(env); err != nil {
				t.Fatal(err)
			}
			env.Vars = slices.DeleteFunc(env.Vars, func(v string) bool { return strings.HasPrefix(v, "XDG_") }) // the README documents ~/.config
			markdowntest.Run(t, filepath.Join(root, name), markdowntest.Machine{
				Dir: dir, Env: env.Vars, Need: requireForBlock, Update: *updateFlag,
				With: filepath.Join("testdata", "console", strings.ReplaceAll(name, "/", "_")+".txtar"),
			})
		})
	})
	if ran < 10 {
		t.Errorf("only %d files were found", ran)
	}
}

func requireForBlock(t testing.TB, needs []string) {
	for _, what := range needs {
		if what == "internet" || what == "images" { // no test has these
			t.Skipf("it needs %s", what)
		}
		requireFeatures(t, what)
	}
}
