//go:build linux

package backendtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// hostIndependentChecks are the checks that must also pass without an own root directory and network. The others
// may fail there.
func hostIndependentChecks() []string {
	return []string{"threads", "thread_pool", "subprocesses", "signals", "memory_maps", "locales", "keeps_away_from_the_limits",
		"crypto", "wasm", "shared_memory", "pipes", "here_documents", "traps", "text_tools", "dates", "coprocesses"}
}

// testPrograms: users turn off containment that breaks real programs, so each check of works.py and works.js is an
// everyday operation.
func testPrograms(t *testing.T, b *bench) {
	for _, c := range []struct{ language, program string }{{"python", "works.py"}, {"node", "works.js"}, {"shell", "works.sh"}} {
		b.runParallel(t, c.language, func(t *testing.T) {
			spec := b.spec(c.language)
			spec.Limits = backends.Limits{RAM: 512 << 20, Processes: 40}
			o := b.runProgramFile(t, spec, c.program, b.surroundings()...)
			checks := 0
			for line := range strings.Lines(o.Stdout) {
				text, ok := strings.CutPrefix(line, "CHECK ")
				if !ok {
					continue
				}
				var r struct{ Name, State, Detail string }
				if err := json.Unmarshal([]byte(text), &r); err != nil {
					t.Fatalf("%v in %q", err, line)
				}
				checks++
				t.Run(r.Name, func(t *testing.T) {
					if r.State == "failed" && !b.promises(backends.LayerMount) && !slices.Contains(hostIndependentChecks(), r.Name) {
						t.Skip("not without a root directory of its own: ", r.Detail)
					}
					switch r.State {
					case "missing":
						b.skipMissing(t, r.Name, r.Detail)
					case "ok":
					default:
						t.Errorf("%s: %s", r.State, r.Detail)
					}
				})
			}
			if o.Ended != backends.EndedOK || !strings.Contains(o.Stdout, "ALL DONE") || checks == 0 {
				t.Errorf("ended %s %s %s after %d checks\n%.2000s\n%.2000s", o.Ended, o.Limit, o.Signal, checks, o.Stdout, o.Stderr)
			}
		})
	}
}
