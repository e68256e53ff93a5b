package mcp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// What somebody wrote is quoted as it stands; what to do about it is in a tool's own parameters.
func TestReasonIsNotTranslated(t *testing.T) {
	r := explain("execute_code", &pipeline.Error{Stage: pipeline.StageValidate, Reason: `"frob --env A=1 --input data" is not allowed`,
		Remedy: pipeline.Remedy{"give one of ", remedy.Secret, " and ", remedy.Env, ", not --env"}})
	if r.Reason != `"frob --env A=1 --input data" is not allowed` || r.Remedy != "give one of secrets and env, not --env" {
		t.Errorf("got %+v", r)
	}
}

func TestLimitsInTools(t *testing.T) {
	for _, tt := range []struct {
		limit      remedy.Name
		tool, want string
	}{
		{remedy.Timeout, "execute_code", "timeout"},
		{remedy.Timeout, "create_session", "resource_limits.timeout_seconds"},
		{remedy.Timeout, "set_resource_limits", "timeout_seconds"},
		{remedy.RAM, "execute_code", "resource_limits.max_ram_mb"},
		{remedy.RAM, "create_session", "resource_limits.max_ram_mb"},
		{remedy.RAM, "set_resource_limits", "max_ram_mb"},
		{remedy.Disk, "set_resource_limits", "limits.disk_mb in the operator's configuration"},
	} {
		err := &pipeline.Error{Reason: "too much", Remedy: pipeline.Remedy{"ask for at most ", tt.limit, " 30, or ", remedy.Raise.With("caps.x")}}
		want := "ask for at most " + tt.want + " 30, or have a person raise caps.x in the configuration"
		if got := explain(tt.tool, err).Remedy; got != want {
			t.Errorf("%s of %s: got %q, want %q", tt.limit, tt.tool, got, want)
		}
	}
}

var (
	aFlag = regexp.MustCompile(`--[a-z][a-z-]*`)
	aWord = regexp.MustCompile(`[a-z]+(?:_[a-z]+)+`)
)

// TestRemediesOfAll: whatever a remedy names, tools read no flag, and the command line no tool nor its parameter.
func TestRemediesOfAll(t *testing.T) {
	ours := toolTerms()
	for _, name := range remedyNames(t) {
		typed := pipeline.Remedy{"do: ", name.With("VALUE")}.String()
		if word := slices.IndexFunc(aWord.FindAllString(typed, -1), func(w string) bool { return ours[w] }); word >= 0 {
			t.Errorf("the command line reads %q", typed)
		}
		for _, tool := range []string{"execute_code", "create_session", "set_resource_limits", "install_package"} {
			if words := wordsOf(tool)(name.With("VALUE")); words == "" || aFlag.MatchString(words) || strings.Contains(words, "%") {
				t.Errorf("%s reads %q for %q", tool, words, name)
			}
		}
	}
}

// TestRemediesAreValues: no text of the pipeline names a flag of the command line, a tool or its parameter, other than by a remedy.Name.
func TestRemediesAreValues(t *testing.T) {
	reference, err := os.ReadFile("../cli/README.md")
	if err != nil {
		t.Fatal(err)
	}
	flags, ours := aFlag.FindAllString(string(reference), -1), toolTerms()
	known := []string{"host/limits.go", "host/safe.go", "host/form.go", "host/words.go", "packages/pip.go", "packages/npm.go", "packages/npm_settings.go",
		"packages/pip_settings.go", "remedy/remedy.go", "hint_install.go", "control/sessions.go"} // have options of other programs, or fields of JSON
	for name, text := range stringsOf(t, "../pipeline") {
		if strings.HasPrefix(text, `json:"`) || slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(name, k+":") }) {
			continue
		}
		for _, flag := range aFlag.FindAllString(text, -1) {
			if slices.Contains(flags, flag) {
				t.Errorf("%s: %q names the flag %s", name, text, flag)
			}
		}
		for _, word := range aWord.FindAllString(text, -1) {
			if word != text && ours[word] { // as it stands it is for the log
				t.Errorf("%s: %q names %s", name, text, word)
			}
		}
	}
}

// toolTerms are the names of all tools and parameters that are no plain words.
func toolTerms() map[string]bool {
	all := map[string]bool{}
	for _, t := range (&Server{}).tools() {
		all[t.name] = true
		for _, f := range t.in {
			all[f.name] = strings.Contains(f.name, "_")
		}
	}
	return all
}

func remedyNames(t *testing.T) (all []remedy.Name) {
	f, err := parser.ParseFile(token.NewFileSet(), "../pipeline/remedy/remedy.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok {
			for _, v := range s.Values {
				name, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, remedy.Name(name))
			}
		}
		return true
	})
	if len(all) < 30 {
		t.Fatalf("got %d names", len(all))
	}
	return all
}

// stringsOf returns the strings in the Go files below a directory, by where they are.
func stringsOf(t *testing.T, dir string) map[string]string {
	all, set := map[string]string{}, token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				at, _ := filepath.Rel(dir, set.Position(lit.Pos()).String())
				all[at] = text
			}
			return true
		})
		return nil
	})
	if err != nil || len(all) < 1000 {
		t.Fatalf("%v: %d strings", err, len(all))
	}
	return all
}
