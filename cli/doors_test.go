package cli_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ofDoors are the functions and headers that only package door may use, for all HTTP servers.
var ofDoors = []string{
	"http.MaxBytesReader", "http.NewResponseController", "http.Server", "http.TimeoutHandler", "http.Error", // bounds, deadlines, refusals
	"time.NewTicker",                               // heartbeats
	"map[string]int",                               // counts of clients
	"text/event-stream", "x-ndjson", "Retry-After", // headers that are set
}

// besideDoors are the uses outside of package door, each with its reason.
var besideDoors = map[string]string{
	"pipeline/control/server.go http.Server": "its clients are this user's own processes on a socket of their " +
		"own, which hand pipes over",
	"pipeline/control/run_server_linux.go http.NewResponseController": "it takes the connection over",
	"pipeline/control/api.go http.TimeoutHandler":                     "bounds what the server does, and not what a client may",
	"pipeline/page/render.go http.Error":                              "there is no page that could say it",
	"pipeline/page/now.go time.NewTicker":                             "asks what has changed",
	"mcp/e2b/metrics.go time.NewTicker":                               "measures sandboxes",
	"mcp/rpc/http_session.go time.NewTicker":                          "forgets sessions that nobody uses",
	"cli/metrics.go http.Error":                                       "Prometheus reads text",
	"pipeline/event/webhook/webhook.go time.NewTicker":                "reports what a receiver did not take",
}

// TestDoors checks that budgets, refusals, streams and heartbeats of HTTP servers are only in package door.
func TestDoors(t *testing.T) {
	found := map[string]bool{}
	for _, root := range []string{"pipeline", "mcp", "cli"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			name := strings.TrimPrefix(filepath.ToSlash(path), "../")
			if err != nil || strings.HasPrefix(name, "pipeline/door/") || strings.HasPrefix(name, "pipeline/pipelinetest/") ||
				!slices.ContainsFunc(file.Imports, isHTTP) {
				return err
			}
			for _, use := range doorUses(file) {
				found[name+" "+use] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for use := range found {
		if besideDoors[use] == "" {
			t.Errorf("%s: package door does that for all", use)
		}
	}
	for use := range besideDoors {
		if !found[use] {
			t.Errorf("%s: there is no such exception any more", use)
		}
	}
}

func isHTTP(i *ast.ImportSpec) bool { return i.Path.Value == `"net/http"` }

// doorUses returns the uses of ofDoors in a file.
func doorUses(file ast.Node) (uses []string) {
	add := func(use string) {
		if slices.Contains(ofDoors, use) {
			uses = append(uses, use)
		}
	}
	nameOf := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			e = s.X
			if x, ok := e.(*ast.Ident); ok {
				return x.Name + "." + s.Sel.Name
			}
			return s.Sel.Name
		}
		if x, ok := e.(*ast.Ident); ok {
			return x.Name
		}
		return ""
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			add(nameOf(n.Type))
		case *ast.MapType:
			add("map[" + nameOf(n.Key) + "]" + nameOf(n.Value))
		case *ast.CallExpr:
			name := nameOf(n.Fun)
			add(name)
			for _, a := range n.Args {
				if text, ok := a.(*ast.BasicLit); ok && (name == "Set" || strings.HasSuffix(name, ".Set")) {
					add(strings.TrimPrefix(strings.Trim(text.Value, "\"`"), "application/"))
				}
			}
		}
		return true
	})
	return uses
}

// TestDoorUses tests doorUses.
func TestDoorUses(t *testing.T) {
	for code, want := range map[string]string{
		`r.Body = http.MaxBytesReader(w, r.Body, 1)`:                   "http.MaxBytesReader",
		`w.Header().Set("Content-Type", "text/event-stream")`:          "text/event-stream",
		`h.Set("Content-Type", "application/x-ndjson")`:                "x-ndjson",
		`w.Header().Set("Retry-After", "1")`:                           "Retry-After",
		`streams := map[string]int{}`:                                  "map[string]int",
		`s := &http.Server{Handler: h}`:                                "http.Server",
		`tick := time.NewTicker(time.Second)`:                          "time.NewTicker",
		`accepts(r, "text/event-stream"); r.Header.Get("Retry-After")`: "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() { "+code+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(doorUses(file), " "); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}
