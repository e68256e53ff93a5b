package cli_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// privateWords map words to the term of the field. They may not appear anywhere: not in a name, a comment, a message or
// a page.
var privateWords = map[string]string{
	"nest": "template", "mother": "template", "nursery": "pre-spawn pool",
	"hatch": "spawn", "hatched": "spawned", "hatches": "spawns", "unborn": "spawned, not started",
	"parked": "idle", "undress": "rewrite argv and environment", "undressed": "rewritten",
	"errand": "operation", "errands": "operations", "outlet": "egress session", "outlets": "egress sessions",
	"patience": "timeout", "respite": "grace period",
	"keeper": "manager", "mourn": "reap", "bury": "reap", "revive": "restart",
	"veil": "redact", "veiled": "redacted", "veils": "redacts", "unveil": "reveal", "unveiled": "revealed",
	"furnish": "set up", "furnished": "set up", "furnishes": "sets up",
	"tally": "counters", "tallies": "counters", "folder": "directory", "folders": "directories",
	"shelved": "stored", "shelf": "result store", "shelves": "stores",
	"gist": "summary",
}

// privateNames are ambiguous English words that may not be a part of a name. They may appear in sentences.
var privateNames = map[string]string{
	"birth": "spawn", "born": "spawned", "bear": "spawn", "park": "release", "dress": "rewrite", "recipe": "pool key", "wish": "action",
	"turn": "lock, semaphore, ticket", "claim": "lease", "tend": "reap", "telling": "distinctive", "book": "address map",
	"ending": "suffix, exit status, timeout", "opening": "prelude",
	"lengthen": "preallocate", "look": "stat, probe, scan, poll, inspect", "hurry": "timeout", "box": "sandbox",
	"spent": "exited", "said": "response", "told": "notified", "shown": "visible", "listed": "entries", "kept": "cached",
	"given": "granted", "lent": "leased", "aside": "tempdir", "stray": "orphan", "wanted": "expected", "guess": "suggest",
	"gate": "proxy, gateway, ports, mutex", "trial": "probe", "weak": "landlock-only",
}

// theirs are external names that contain private words, by the file that may use them.
var theirs = map[string]string{
	"folderTrust": "cli/setup/clients.go", // a setting of Gemini CLI
	"lookUp":      "backends/backendtest/network.go",
}

// TestPlainWords checks that the tree contains no private words: a reader who knows the field needs no dictionary.
func TestPlainWords(t *testing.T) {
	words := regexp.MustCompile(`[A-Za-z]+`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".py", ".js", ".mjs", ".ts", ".r", ".R", ".md", ".sql", ".sh", ".txtar", ".json", ".yaml", ".yml"},
			filepath.Ext(path)) || d.Name() == "words_test.go" {
			return nil
		}
		for _, w := range camel(strings.TrimSuffix(d.Name(), filepath.Ext(path))) {
			if _, no := privateNames[w]; no {
				t.Errorf("%s: file name: %s", path, w)
			}
		}
		rel := strings.TrimPrefix(filepath.ToSlash(path), "../")
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(src), "\n") {
			for _, word := range words.FindAllString(line, -1) {
				if theirs[word] == rel {
					continue
				}
				for _, w := range camel(word) {
					if say, no := privateWords[w]; no {
						t.Errorf("%s:%d: %s: say %s", path, i+1, word, say)
					}
				}
			}
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name := func(ids ...*ast.Ident) {
			for _, id := range ids {
				if first := camel(id.Name); len(first) > 1 && first[0] == "most" {
					t.Errorf("%s: name %s: say max", files.Position(id.Pos()), id.Name)
				}
				if theirs[id.Name] == rel {
					continue
				}
				for _, w := range camel(id.Name) {
					if say, no := privateNames[w]; no {
						t.Errorf("%s: name %s: say %s", files.Position(id.Pos()), id.Name, say)
					}
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name(n.Name)
			case *ast.TypeSpec:
				name(n.Name)
			case *ast.ValueSpec:
				name(n.Names...)
			case *ast.Field:
				name(n.Names...)
			case *ast.AssignStmt:
				if n.Tok == token.DEFINE {
					for _, e := range n.Lhs {
						name(e.(*ast.Ident))
					}
				}
			case *ast.RangeStmt:
				if n.Tok == token.DEFINE {
					for _, e := range []ast.Expr{n.Key, n.Value} {
						if id, ok := e.(*ast.Ident); ok {
							name(id)
						}
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// camel returns the words of a name, in lower case.
func camel(name string) []string {
	var words []string
	rs, start := []rune(name), 0
	for i := 1; i <= len(rs); i++ {
		if i == len(rs) || rs[i] == '_' || rs[i] == '-' || unicode.IsUpper(rs[i]) && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) &&
			unicode.IsLower(rs[i+1])) {
			words = append(words, strings.ToLower(strings.Trim(string(rs[start:i]), "_-")))
			start = i
		}
	}
	return words
}
