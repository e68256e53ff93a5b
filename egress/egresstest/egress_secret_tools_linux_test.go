package egresstest

import (
	"cmp"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestSecretInTools runs everyday tools with a key, as an ordinary user or as both users.
func TestSecretInTools(t *testing.T) {
	requirePrograms(t, "curl", "wget", "git", "node", "npm")
	a := &api{value: newValue()}
	mux, dir := a.ownHandlers(), t.TempDir()
	repo := gitSite(t, dir)
	command(t, "git", "-C", dir+"/repositories/repo.git", "config", "http.receivepack", "true")
	mux.Handle("/repo.git/", a.closed(repo))
	packages := pypi(t)
	mux.Handle("/simple/", a.closed(packages))
	mux.Handle("/files/", a.closed(packages))
	mux.Handle("/tone", a.closed(npm(t)))
	mux.Handle("/tone.tgz", a.closed(npm(t)))
	body := newValue()
	w := newWorld(t, map[string]http.Handler{bound: a.listen(bound, mux),
		"front.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			if r.Header.Get("Content-Type") == "application/json" && string(text) == `{"k": "`+body+`"}` ||
				strings.Contains(string(text), "k="+spell("query", body)) {
				io.WriteString(w, "body known\n")
			}
		})})
	inputs := []string{"--secret", "API_KEY", "--secret", "BODY_KEY", "--allow", bound, "--allow", "front.test", "--allow", "example.test",
		"--input", w.copyOf("testdata/secret.py"), "--input", w.copyOf("testdata/secret.mjs")}
	for _, who := range []string{ordinary, ""}[:hosttest.Rounds(1, 2)] {
		t.Run(cmp.Or(who, "root"), func(t *testing.T) {
			w.bind(t, who, "API_KEY", a.value, "--host", bound)
			w.bind(t, who, "BODY_KEY", body, "--host", "front.test", "--body", "--require")
			r := w.run(who, "secret_tools.sh", inputs...)
			for line := range strings.Lines(r.Stdout) {
				if !strings.HasSuffix(line, ": ok\n") {
					t.Errorf("%s", line)
				}
			}
			if r.Ended != "ok" || strings.Count(r.Stdout, "\n") != 29 {
				t.Errorf("ended %s, %+v, stderr %s", r.Ended, r.Refused, r.Stderr)
			}
			w.cleanRun(t, who, r, a.value)
			w.cleanRun(t, who, r, body)
		})
	}
}
