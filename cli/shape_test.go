package cli_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// The maximum sizes of structs and packages. A larger one does several things.
const (
	maxFields = 25
	maxFiles  = 30
)

// eachProductFile calls do with the product's Go files and the paths of their packages inside the module.
func eachProductFile(t *testing.T, do func(pkg string, f *ast.File)) {
	t.Helper()
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name != ".." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err == nil {
			do(filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), ".."+string(filepath.Separator))), f)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStructsAreSmall(t *testing.T) {
	eachProductFile(t, func(pkg string, f *ast.File) {
		name := ""
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				name = n.Name.Name
			case *ast.StructType:
				if count := n.Fields.NumFields(); count > maxFields {
					t.Errorf("%s %s has %d fields", pkg, name, count)
				}
			}
			return true
		})
	})
}

func TestPackagesAreSmall(t *testing.T) {
	files := map[string]int{}
	eachProductFile(t, func(pkg string, _ *ast.File) { files[pkg]++ })
	for pkg, n := range files {
		if n > maxFiles {
			t.Errorf("%s has %d files", pkg, n)
		}
	}
}
