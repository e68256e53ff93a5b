package cli_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// goFile is a parsed file of Go; tests are included.
type goFile struct {
	name string
	src  string
	ast  *ast.File
	fset *token.FileSet
}

func parseGo(name, src string) (goFile, error) {
	f := goFile{name: name, src: src, fset: token.NewFileSet()}
	var err error
	f.ast, err = parser.ParseFile(f.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

func (f goFile) finding(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", f.name, f.fset.Position(pos).Line) + fmt.Sprintf(format, args...)
}

// parseTree parses each file of Go in the tree once for all tests, this file excepted: it contains broken examples.
var parseTree = sync.OnceValues(func() (files []goFile, err error) {
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || d.Name() == "plain_test.go":
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parseGo(strings.TrimPrefix(filepath.ToSlash(path), "../"), string(src))
		files = append(files, f)
		return err
	})
	return files, err
})

// plainDirs are the directories that pass TestNamesShadowNoStandardPackage. The others follow.
var plainDirs = []string{"audit/", "backends/", "cli/", "egress/", "mcp/", "signer/", "validate/", "vault/"}

// checkRule fails for each finding of rule in the directories, and if rule finds nothing in the broken source.
func checkRule(t *testing.T, rule func([]goFile) []string, broken string, dirs ...string) {
	t.Helper()
	f, err := parseGo("broken.go", broken)
	if err != nil {
		t.Fatal(err)
	}
	if len(rule([]goFile{f})) == 0 {
		t.Errorf("no finding in:\n%s", broken)
	}
	files, err := parseTree()
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(slices.Clone(files), func(f goFile) bool {
		return !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(f.name, dir) })
	})
	for _, finding := range rule(files) {
		t.Error(finding)
	}
}

// vagueVerbs name a function only if nothing else says more about its effect and its object.
var vagueVerbs = strings.Fields("ask at begin end enter find follow give hold keep know learn line live loosen make mark missing " +
	"note of own put say see settle show shows stand take tell told under")

const maxVagueNames = 8

func TestFunctionsAreNamedByVerbAndObject(t *testing.T) {
	rule := func(files []goFile) (findings []string) {
		named := map[string][]string{}
		for _, f := range files {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && slices.Contains(vagueVerbs, strings.ToLower(fn.Name.Name)) {
					verb := strings.ToLower(fn.Name.Name)
					named[verb] = append(named[verb], f.finding(fn.Pos(), "%s", fn.Name.Name))
				}
			}
		}
		for verb, places := range named {
			if len(places) > maxVagueNames {
				findings = append(findings, fmt.Sprintf("%d functions are named %q, at most %d may be:\n%s",
					len(places), verb, maxVagueNames, strings.Join(places, "\n")))
			}
		}
		return findings
	}
	checkRule(t, rule, "package p\n"+strings.Repeat("func End() {}\n", maxVagueNames)+"func (s stream) end() {}\n", "")
}

func TestMessagesSayIsNotA(t *testing.T) {
	negated := regexp.MustCompile(`\b(is|are) no [a-zA-Z]\w*`)
	rule := func(files []goFile) (findings []string) {
		for _, f := range files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				for _, at := range negated.FindAllStringIndex(lit.Value, -1) {
					before, text := lit.Value[:at[0]], lit.Value[at[0]:at[1]]
					if !strings.HasSuffix(strings.ToLower(before), "there ") && !strings.HasSuffix(text, " no longer") {
						findings = append(findings, f.finding(lit.Pos(), "%q: say \"is not a\"", text))
					}
				}
				return true
			})
		}
		return findings
	}
	checkRule(t, rule, "package p\n\nvar message = \"127.0.0.1 is no port\"\n", "")
}

// maxClauses are the clauses with what, who or whoever that the comments of the tree may have, where no noun says it.
const maxClauses = 48

func TestCommentsNameTheirSubject(t *testing.T) {
	var clauses int
	subject := regexp.MustCompile(`(?:^|[.:;]\s+)(What|Who|Whoever)\b`)
	clause := regexp.MustCompile(`(?i)\b(what|who|whoever)\b`)
	rule := func(files []goFile) (findings []string) {
		clauses = 0
		for _, f := range files {
			for _, group := range f.ast.Comments {
				text := strings.TrimSpace(group.Text())
				if line := f.fset.Position(group.Pos()); !startsLine(f.src, line.Offset) {
					continue
				}
				clauses += len(clause.FindAllString(text, -1))
				if m := subject.FindStringSubmatch(text); m != nil {
					findings = append(findings, f.finding(group.Pos(), "%q is the subject of a comment: name the thing", m[1]))
				}
			}
		}
		if clauses > maxClauses {
			findings = append(findings, fmt.Sprintf("comments have %d clauses with what, who or whoever, at most %d may be", clauses, maxClauses))
		}
		return findings
	}
	checkRule(t, rule, "package p\n\n// stop stops a run.\n// Whoever waits for it returns.\nfunc stop() {}\n", "")
}

// startsLine reports whether only white space precedes the offset in its line.
func startsLine(src string, offset int) bool {
	return strings.TrimSpace(src[strings.LastIndexByte(src[:offset], '\n')+1:offset]) == ""
}

func TestNamesShadowNoStandardPackage(t *testing.T) {
	rule := func(files []goFile) (findings []string) {
		for _, f := range files {
			imported := standardImports(f.ast)
			check := func(ids ...*ast.Ident) {
				for _, id := range ids {
					if id != nil && imported[id.Name] {
						findings = append(findings, f.finding(id.Pos(), "%s shadows the package", id.Name))
					}
				}
			}
			checkFields := func(list *ast.FieldList) {
				if list != nil {
					for _, field := range list.List {
						check(field.Names...)
					}
				}
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					checkFields(n.Recv)
					if n.Recv == nil {
						check(n.Name)
					}
				case *ast.FuncType:
					checkFields(n.Params)
					checkFields(n.Results)
				case *ast.TypeSpec:
					check(n.Name)
				case *ast.ValueSpec:
					check(n.Names...)
				case *ast.AssignStmt:
					if n.Tok == token.DEFINE {
						for _, e := range n.Lhs {
							check(e.(*ast.Ident))
						}
					}
				case *ast.RangeStmt:
					if n.Tok == token.DEFINE {
						for _, e := range []ast.Expr{n.Key, n.Value} {
							if id, ok := e.(*ast.Ident); ok {
								check(id)
							}
						}
					}
				}
				return true
			})
		}
		return findings
	}
	checkRule(t, rule, "package p\n\nimport \"path\"\n\nvar join = path.Join\n\nfunc open(path string) {}\n", plainDirs...)
}

// standardImports are the names by which a file knows packages of the standard library.
func standardImports(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range f.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if first, _, _ := strings.Cut(from, "/"); err != nil || strings.Contains(first, ".") {
			continue
		}
		switch {
		case spec.Name != nil:
			names[spec.Name.Name] = spec.Name.Name != "_"
		case path.Base(from) == "v2": // math/rand/v2
			names[path.Base(path.Dir(from))] = true
		default:
			names[path.Base(from)] = true
		}
	}
	return names
}
