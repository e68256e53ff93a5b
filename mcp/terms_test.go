package mcp

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/process"
	"github.com/sandboxmcp/sandboxmcp/mcp/answer"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

// TestReasonIsNotTranslated: quoted text stays as it is; remedies use the tool's own parameters.
func TestReasonIsNotTranslated(t *testing.T) {
	r := answer.Explain("execute_code", &pipeline.Error{Stage: pipeline.StageValidate, Reason: `"frob --env A=1 --input data" is not allowed`,
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
		if got := answer.Explain(tt.tool, err).Remedy; got != want {
			t.Errorf("%s of %s: got %q, want %q", tt.limit, tt.tool, got, want)
		}
	}
}

var (
	aFlag = regexp.MustCompile(`--[a-z][a-z-]*`)
	aWord = regexp.MustCompile(`[a-z]+(?:_[a-z]+)+`)

	ourSettings = regexp.MustCompile(`\b(?:in|of) the configuration\b`)

	anOption = regexp.MustCompile(`^--[a-z-]+(?:=\S*)?$`) // binary, of another program
)

// TestRemediesOfAll: remedies for tools have no flags, and those for the command line no tools or parameters.
func TestRemediesOfAll(t *testing.T) {
	ours := toolTerms()
	for _, name := range remedyNames(t) {
		typed := pipeline.Remedy{"do: ", name.With("VALUE")}.String()
		if word := slices.IndexFunc(aWord.FindAllString(typed, -1), func(w string) bool { return ours[w] }); word >= 0 {
			t.Errorf("the command line reads %q", typed)
		}
		for _, tool := range []string{"execute_code", "create_session", "set_resource_limits", "install_package"} {
			if words := answer.WordsOf(tool)(name.With("VALUE")); words == "" || aFlag.MatchString(words) || strings.Contains(words, "%") {
				t.Errorf("%s reads %q for %q", tool, words, name)
			}
		}
	}
}

// TestRefusalsOfBackends: the remedy for a backend's refusal is a parameter of the tool, the operator, or a command
// for a person to type.
func TestRefusalsOfBackends(t *testing.T) {
	b := process.New(process.Config{StateDir: t.TempDir()})
	defer b.Close()
	_, gpus := b.Start(t.Context(), backends.Spec{Language: "shell", GPUs: []string{"0"}})
	probe := func(context.Context) (backends.Probe, error) {
		err := &backends.Refusal{Layer: backends.LayerUser, Reason: "off", Remedy: remedy.Text{"use ", remedy.Profile.With("hardened")}}
		why := backends.ReasonOf(fmt.Errorf("docker 29: %w",
			backends.Refuse("no image", remedy.Command.With("sandboxmcp image pull --backend docker r"))))
		return backends.Probe{Why: why, Layers: backends.UntriedLayers(err), Runtimes: []backends.Runtime{{Name: "r", Why: why}}}, nil
	}
	a, err := runtimes(t, []backends.Backend{engine{name: "docker", probe: probe}}, "")
	if err != nil {
		t.Fatal(err)
	}
	const image = "docker 29: no image (sandboxmcp image pull --backend docker r (for a person to type))"
	contains(t, a.Text, "can't run code: "+image, "- r is missing: "+image,
		"user is missing: off; what to do: use profile hardened in the operator's configuration")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{gpus, "use a container: backend docker or backend podman"},
		{backends.RefuseMount("/etc", "is taken"), "choose another path for a mount or a workspace"},
		{backends.Refuse("off", remedy.Command.With("sysctl --write a=1")), "sysctl --write a=1 (for a person to type)"},
	} {
		wrapped := fmt.Errorf("start: %w", tt.err)
		if got := answer.Explain("execute_code", wrapped).Remedy; got != tt.want || !strings.Contains(wrapped.Error(), "(") {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if r := answer.Explain("host_exec", fmt.Errorf("open: %w", remedy.For(io.EOF, remedy.AddAgain))); r.Reason != "open: EOF" ||
		r.Remedy != "have a person add it again" {
		t.Errorf("got %+v", r)
	}
}

// TestRemediesAreValues: the texts of a stage name flags, tools and parameters only by a remedy.Name or in a command
// for a person to type.
func TestRemediesAreValues(t *testing.T) {
	reference, err := os.ReadFile("../cli/README.md")
	if err != nil {
		t.Fatal(err)
	}
	flags, ours := aFlag.FindAllString(string(reference), -1), toolTerms()
	known := []string{"pipeline/host/safe.go", "pipeline/run/hint_install.go", "validate/shellwords.go", "pipeline/remedy/remedy.go",
		"pipeline/control/sessions.go", "pipeline/host/words.go", "vault/keyring/keyring.go", // have options of other programs, or fields of JSON
		"validate/validate.go", "audit/witness/witness.go", // for the command line only: the language of a file, a checkpoint
		"audit/errors.go", "audit/schema/create.go"} // commands for a person to type
	for _, stage := range []string{"validate", "vault", "egress", "backends", "signer", "audit", "pipeline"} {
		for name, text := range stringsOf(t, stage) {
			if strings.HasPrefix(text, `json:"`) || anOption.MatchString(text) ||
				slices.ContainsFunc(known, func(k string) bool { return strings.HasPrefix(name, k+":") }) {
				continue
			}
			if ourSettings.MatchString(text) && !strings.Contains(text, "person") && !strings.Contains(text, "operator") {
				t.Errorf("%s: %q does not say whose configuration that is", name, text)
			}
			for _, flag := range aFlag.FindAllString(text, -1) {
				if slices.Contains(flags, flag) {
					t.Errorf("%s: %q names the flag %s", name, text, flag)
				}
			}
			for _, word := range aWord.FindAllString(text, -1) {
				if word != text && ours[word] { // as it is, it is for the log
					t.Errorf("%s: %q names %s", name, text, word)
				}
			}
		}
	}
}

// toolTerms returns the names of all tools and parameters except plain words.
func toolTerms() map[string]bool {
	all := map[string]bool{}
	for _, t := range (&Server{}).tools() {
		all[t.Name] = true
		for _, name := range t.In.Names() {
			all[name] = strings.Contains(name, "_")
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

// stringsOf returns the strings in a stage's Go files, by place, without files that only tests use and commands for a
// person to type.
func stringsOf(t *testing.T, stage string) map[string]string {
	all, set := map[string]string{}, token.NewFileSet()
	err := filepath.WalkDir(filepath.Join("..", stage), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test")):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				return types.ExprString(n.Fun) != "remedy.Command.With"
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					text, _ := strconv.Unquote(n.Value)
					at, _ := filepath.Rel("..", set.Position(n.Pos()).String())
					all[at] = text
				}
			}
			return true
		})
		return nil
	})
	if err != nil || len(all) < 100 {
		t.Fatalf("%s: %v: %d strings", stage, err, len(all))
	}
	return all
}
