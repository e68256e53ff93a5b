package validate

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/cli/role"
)

// TestBombs sends code that crashes a parser, or keeps it busy forever. There is always an answer, and this process
// lives.
func TestBombs(t *testing.T) {
	deep := func(open, middle, shut string, n int) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(shut, n)
	}
	tests := []struct{ name, file, source string }{
		{"parentheses", "a.js", deep("(", "1", ")", 4<<20)},
		{"brackets, small", "a.js", deep("[", "1", "]", maxInProcess/2-1)},
		{"not, small", "a.js", deep("!", "1", "", maxInProcess-1)},
		{"shadowed names, cubic", "a.js", deep("a=>", "1", "", maxInProcess/3)},
		{"functions", "a.js", deep("function f(){", "", "}", 700_000)},
		{"templates", "a.js", deep("`${", "1", "}`", 1<<20)},
		{"module with shadowed names", "a.js", "import.meta;" + deep("a=>", "1", "", 5000)},
		{"parentheses", "a.ts", deep("(", "1", ")", 4<<20)},
		{"blocks, quadratic to print", "a.ts", deep("{", "", "}", hosttest.Rounds(4000, 20_000))},
		{"types", "a.ts", "let x:" + deep("(a:", "1", ")=>1", 50_000)},
		{"conditional types", "a.ts", "type A = " + deep("B extends infer C extends (", "D", ") ? 1 : 2", 100)},
		{"substitutions", "a.sh", deep("$(", "", ")", 3<<20)},
		{"arithmetic, small", "a.sh", deep("((", "1", "))", maxInProcess/4-1)},
		{"subshells", "a.sh", deep("( ", "a", ")", 2<<20)},
	}
	for _, tt := range tests {
		t.Run(tt.file+" "+tt.name, func(t *testing.T) {
			t.Parallel()
			_, bad := check(t, Code{Name: tt.file, Source: []byte(tt.source)})
			t.Logf("%d bytes: %.120v", len(tt.source), bad)
			if bad == nil {
				return
			}
			if wantSafe(t, bad.Error()); !strings.HasSuffix(tt.file, ".ts") {
				t.Error("refused, though its interpreter may take it")
			}
		})
	}
}

// forever is short TypeScript that takes esbuild hours.
var forever = strings.Repeat("a=>", 20_000) + "1"

func TestApartTime(t *testing.T) {
	_, err := parseIsolated(t.Context(), job{Language: Node, Name: "a.ts", TypeScript: true, Source: []byte(forever)}, 500*time.Millisecond)
	if !errors.Is(err, errParserLimits) {
		t.Errorf("got %v, want %v", err, errParserLimits)
	}
}

func TestApartCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Check(ctx, Code{Name: "a.ts", Source: []byte(forever)})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

// TestApartEndsWithParent closes the pipe like the kernel for a killed parent.
func TestApartEndsWithParent(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), executablePath())
	cmd.Args = []string{role.Parser}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	json.NewEncoder(stdin).Encode(job{Name: "a.ts", TypeScript: true, Source: []byte(forever)})
	stdin.Close()
	cmd.Wait() // otherwise the parser outlives its parent
}

func TestLargeSources(t *testing.T) {
	js := strings.Repeat("function f(a, b) { return a.map((x) => x * b).filter(Boolean); }\n", 15_000)
	for _, name := range []string{"a.js", "a.ts", "a.sh"} {
		source := js
		if name == "a.sh" {
			source = strings.Repeat("if true; then echo \"$(date) ${x:-y}\"; fi\n", 25_000)
		}
		got, bad := check(t, Code{Name: name, Source: []byte(source)})
		if bad != nil || len(got.Warnings) > 0 {
			t.Errorf("%s of %d bytes: %v, warnings %v", name, len(source), bad, got.Warnings)
		}
	}
}
