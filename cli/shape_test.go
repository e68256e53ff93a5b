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

// The largest structs and packages: beyond that, they are several things.
const (
	maxFields = 25
	maxFiles  = 30
)

// largeStructs and largePackages are those that are not divided yet, with the size that they must not grow beyond.
var (
	largeStructs = map[string]int{
		"backends/process sandbox": 46,
		"mcp outcome":              41,
	}
	largePackages = map[string]int{"backends/process": 43, "mcp": 54, "pipeline": 73}
)

// product calls do for the product's files of Go, by the paths of their packages inside the module.
func product(t *testing.T, do func(pkg string, f *ast.File)) {
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
	sizes := map[string]int{}
	product(t, func(pkg string, f *ast.File) {
		name := ""
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				name = n.Name.Name
			case *ast.StructType:
				if n.Fields.NumFields() > maxFields {
					sizes[pkg+" "+name] = n.Fields.NumFields()
				}
			}
			return true
		})
	})
	compareSizes(t, "fields", sizes, largeStructs)
}

func TestPackagesAreSmall(t *testing.T) {
	all, sizes := map[string]int{}, map[string]int{}
	product(t, func(pkg string, _ *ast.File) {
		if all[pkg]++; all[pkg] > maxFiles {
			sizes[pkg] = all[pkg]
		}
	})
	compareSizes(t, "files", sizes, largePackages)
}

// compareSizes complains about what is too large, and about exceptions that nothing needs any more.
func compareSizes(t *testing.T, of string, sizes, exceptions map[string]int) {
	t.Helper()
	for name, n := range sizes {
		if n > exceptions[name] {
			t.Errorf("%s has %d %s", name, n, of)
		}
	}
	for name := range exceptions {
		if sizes[name] == 0 {
			t.Errorf("%s needs no exception any more", name)
		}
	}
}
