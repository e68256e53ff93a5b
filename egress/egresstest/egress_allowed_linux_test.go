package egresstest

import (
	"cmp"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// ordinary is the user ID of nobody.
const ordinary = "65534"

// TestAllowed runs everyday programs, which know nothing of sandboxes, over allowed names, as root or as an
// ordinary user.
func TestAllowed(t *testing.T) {
	requirePrograms(t, "curl", "wget", "git", "node", "npm", "psql")
	dir := t.TempDir()
	w := newWorld(t, map[string]http.Handler{"pypi.example.test": pypi(t), "npm.example.test": npm(t), "git.example.test": gitSite(t, dir)})
	password := w.database()
	key, known := w.shell()
	var allow []string
	for _, name := range []string{"example.test", "v6.test", "both.test", "alias.test", "front.test", "echo.test:7000", "db.example.test:5432",
		"ssh.example.test:22", "git.example.test", "pypi.example.test", "npm.example.test"} {
		allow = append(allow, "--allow", name)
	}
	command(t, "chmod", "644", key) // every user that runs sandboxmcp must be able to read it
	tools := append([]string{"--env", "PGPASSWORD=" + password, "--input", key, "--input", known, "--input", w.copyOf("testdata/web.mjs")},
		allow...)
	for i, who := range []string{"", ordinary} {
		for j, c := range []struct {
			script string
			flags  []string
			lines  int // one per connection
		}{{"web.py", allow, 11}, {"tools.sh", tools, 16}} {
			if i != j && hosttest.Rounds(0, 1) == 0 {
				continue
			}
			t.Run(c.script+" as "+cmp.Or(who, "root"), func(t *testing.T) {
				w.takeEvents()
				r := w.run(who, c.script, c.flags...)
				for line := range strings.Lines(r.Stdout) {
					if !strings.HasSuffix(line, ": ok\n") {
						t.Errorf("%s", line)
					}
				}
				if r.Ended != "ok" || strings.Count(r.Stdout, "\n") != c.lines {
					t.Errorf("ended %s, %+v, stderr %s", r.Ended, r.Refused, r.Stderr)
				}
				w.stays(t, w.takeEvents(), allow)
				w.checkAccounting(t, r)
			})
		}
	}
}

// checkAccounting checks that a result lists the connections that were made.
func (w *world) checkAccounting(t *testing.T, r result) {
	t.Helper()
	for _, want := range []struct {
		name string
		port int
	}{{"example.test", 443}, {"example.test", 80}} {
		d := r.decided(want.name, want.port, true)
		if d == nil || d.Reason == "" || d.Count == 0 || d.Sent == 0 || d.Received == 0 {
			t.Errorf("%s:%d: got %+v in %+v", want.name, want.port, d, r.Egress)
		}
	}
	for _, d := range r.Egress {
		if !d.Allowed && d.Port != 0 {
			t.Errorf("refused: %+v", d)
		}
	}
}
