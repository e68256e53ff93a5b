package kernel

import (
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// TestRestoring checks in each language that the next cell has none of one cell's variables, and the session's
// values again.
func TestRestoring(t *testing.T) {
	tricky := `a'b"c\d $HOME ` + "`e` %s \U0001F600\tend"
	others := []string{"KEPT=old", "KEPT=" + tricky}
	for language, code := range map[string]string{
		"python": "import os; print(os.environ.get('KEPT'), os.environ.get('GONE', 'none'), sep='|')",
		"node":   "console.log(process.env.KEPT + '|' + (process.env.GONE ?? 'none'))",
		"shell":  `printf '%s|%s\n' "$KEPT" "${GONE-none}"`,
		"r":      "cat(Sys.getenv('KEPT'), '|', Sys.getenv('GONE', unset = 'none'), '\n', sep = '')",
	} {
		t.Run(language, func(t *testing.T) {
			s := startSession(t, sandbox(t, language, backends.Limits{}), language)
			once := []string{"KEPT=new", "GONE=new"}
			show := func(code string, env []string) string {
				var out strings.Builder
				r, err := s.Run(t.Context(), Cell{Code: code, Env: env, Timeout: time.Minute, Stdout: &out})
				if err != nil || r.Error != nil || r.Value != nil && language != "node" {
					t.Fatal(err, r.Error, r.Value)
				}
				return out.String()
			}
			if got := show(code, once); got != "new|new\n" {
				t.Errorf("while they are there: %q", got)
			}
			if got := show(RestoreCode(language, once, others), nil); got != "" {
				t.Errorf("restoring says %q", got)
			}
			if got := show(code, nil); got != tricky+"|none\n" {
				t.Errorf("got %q, want %q", got, tricky+"|none\n")
			}
		})
	}
}
