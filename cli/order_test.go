package cli_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readingOrders lists packages whose comment has an order of their files, "in this order: a, b, c.", in which a file
// uses only those behind it. upward is the allowed number of uses in the other direction; before is their number in the
// best order when it was one package.
var readingOrders = []struct {
	pkg            string
	upward, before int
}{
	{"backends/process", 4, 13},
	{"backends/process/warm", 0, 13},
	{"pipeline", 10, 58},
	{"pipeline/run", 6, 58},
	{"pipeline/changes", 0, 0},
	{"pipeline/session", 17, 58},
	{"mcp", 4, 66},
	{"mcp/rpc", 3, 66},
}

// TestReadingOrder counts the uses of functions, methods, variables and constants that an earlier file of the same
// package declares.
func TestReadingOrder(t *testing.T) {
	for _, row := range readingOrders {
		t.Run(row.pkg, func(t *testing.T) {
			uses, doc := usesBetweenFiles(t, filepath.Join("..", row.pkg))
			found := regexp.MustCompile(`(?s)(?:in this order|calls those behind it):\s+([\w\s,]+)\.`).FindStringSubmatch(doc)
			if found == nil {
				t.Fatal("the package comment gives no order of files")
			}
			order := regexp.MustCompile(`\w+`).FindAllString(found[1], -1)
			upward, by := 0, map[string]int{}
			for edge, n := range uses {
				from, to := slices.Index(order, edge.from), slices.Index(order, edge.to)
				if from < 0 || to < 0 {
					t.Errorf("%s or %s is not in the order of files", edge.from, edge.to)
				}
				if from > to {
					upward += n
					by[fmt.Sprintf("%s uses %s", edge.from, edge.to)] = n
				}
			}
			if upward > row.upward || 3*row.upward > row.before {
				t.Errorf("%d uses run upwards, want at most %d, a third of %d: %v", upward, row.upward, row.before, by)
			}
		})
	}
}

// fileEdge is a use of one file of a package by another, both without suffix.
type fileEdge struct{ from, to string }

// usesBetweenFiles counts the uses in the product files for Linux in a directory, and returns the package comment.
func usesBetweenFiles(t *testing.T, dir string) (map[fileEdge]int, string) {
	t.Helper()
	s := sources{fset: token.NewFileSet(), root: "..", done: map[string]*types.Package{}}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	pkg, files := s.check(dir, info)
	var doc strings.Builder
	for _, f := range files {
		doc.WriteString(f.Doc.Text())
	}
	stem := func(at token.Pos) string {
		name := strings.TrimSuffix(filepath.Base(s.fset.File(at).Name()), ".go")
		return strings.TrimSuffix(name, "_linux")
	}
	uses := map[fileEdge]int{}
	for ident, object := range info.Uses {
		if f, is := object.(*types.Func); is {
			object = f.Origin()
		}
		if _, is := object.(*types.TypeName); is {
			continue
		}
		method := false
		if signature, is := object.Type().(*types.Signature); is {
			method = signature.Recv() != nil
		}
		if object.Pkg() != pkg || object.Parent() != pkg.Scope() && !method {
			continue
		}
		if from, to := stem(ident.Pos()), stem(object.Pos()); from != to {
			uses[fileEdge{from, to}]++
		}
	}
	if len(uses) == 0 {
		t.Fatalf("no uses in %s", dir)
	}
	return uses, doc.String()
}

// sources imports the module's packages from source. Other packages are empty: their types hardly matter for uses of
// our own.
type sources struct {
	fset *token.FileSet
	root string
	done map[string]*types.Package
}

// Import implements [types.Importer].
func (s sources) Import(name string) (*types.Package, error) {
	if s.done[name] == nil {
		if below, ours := strings.CutPrefix(name, module); ours {
			s.done[name], _ = s.check(filepath.Join(s.root, filepath.FromSlash(below)), nil)
		} else {
			s.done[name] = types.NewPackage(name, path.Base(name))
			s.done[name].MarkComplete()
		}
	}
	return s.done[name], nil
}

// check type-checks a package, with function bodies only if info is not nil.
func (s sources) check(dir string, info *types.Info) (*types.Package, []*ast.File) {
	context := build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: "gc", ReleaseTags: build.Default.ReleaseTags}
	p, err := context.ImportDir(dir, 0)
	if err != nil {
		return types.NewPackage(dir, filepath.Base(dir)), nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		if f, err := parser.ParseFile(s.fset, filepath.Join(dir, name), nil, parser.ParseComments|parser.SkipObjectResolution); err == nil {
			files = append(files, f)
		}
	}
	c := types.Config{Importer: s, Error: func(error) {}, IgnoreFuncBodies: info == nil}
	pkg, _ := c.Check(cmp.Or(p.ImportPath, dir), s.fset, files, info)
	return pkg, files
}
