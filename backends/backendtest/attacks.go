//go:build linux

package backendtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// report is the result of one attack.
type report struct {
	Name   string `json:"name"`
	State  string `json:"state"` // "open", "shut", "absent" (not on this kernel) or "skip"
	Detail string `json:"detail"`
	Root   bool   `json:"root"` // without containment only root can open it
	Errno  int    `json:"errno"`
}

// checkAttacks runs a program of attacks and fails for each successful attack.
func (b *bench) checkAttacks(t *testing.T, program string, target map[string]any, mounts ...backends.Mount) {
	t.Helper()
	checkReports(t, b.runAttacks(t, program, target, mounts...), b.o.Known...)
}

// checkReports fails for each successful attack, except those whose names begin with one of known.
func checkReports(t *testing.T, reports []report, known ...string) {
	t.Helper()
	for _, r := range reports {
		if slices.ContainsFunc(known, func(name string) bool { return strings.HasPrefix(r.Name, name) }) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			if r.State == "open" {
				t.Errorf("open: %s", r.Detail)
			} else {
				t.Logf("%s: %s", r.State, r.Detail)
			}
		})
	}
}

// runAttacks returns the report of each attack of the program. It checks that all attacks reported: one that ends
// the program early must not hide the others.
func (b *bench) runAttacks(t *testing.T, program string, target map[string]any, mounts ...backends.Mount) []report {
	t.Helper()
	if target == nil {
		target = map[string]any{}
	}
	arg, err := json.Marshal(target)
	if err != nil {
		t.Fatal(err)
	}
	cmd := backends.Command{Args: []string{"python", program, string(arg)}}
	spec := b.spec("python")
	spec.Mounts = mounts
	s := b.startAnnounced(t, spec, cmd)
	putPrograms(t, s, "attack.py", program)
	o := b.execAnnounced(t, s, cmd).mustSucceed(t)
	var reports []report
	done := false
	for line := range strings.Lines(o.Stdout) {
		if text, ok := strings.CutPrefix(line, "ATTACK "); ok {
			var r report
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			reports = append(reports, r)
		}
		if strings.HasPrefix(line, "ALL DONE") {
			done = true
		}
	}
	if !done || len(reports) == 0 {
		t.Fatalf("the attacks of %s did not end: %s\n%s", program, o.Stdout, o.Stderr)
	}
	return reports
}

// testKernel attacks system calls, the kernel's files, and privileges.
func testKernel(t *testing.T, b *bench) {
	b.needLayer(t, backends.LayerSeccomp)
	t.Run("calls", func(t *testing.T) { b.checkAttacks(t, "kernel.py", nil) })
	t.Run("files", func(t *testing.T) { b.checkAttacks(t, "kernelfiles.py", nil) })
	t.Run("privileges", func(t *testing.T) { b.checkAttacks(t, "privileges.py", nil) })
	t.Run("threads although clone3 is refused", func(t *testing.T) {
		b.python(t, "import threading\nt = [threading.Thread(target=print, args=(i,)) for i in range(4)]\n[x.start() for x in t]; [x.join() "+
			"for x in t]").mustSucceed(t)
	})
}
