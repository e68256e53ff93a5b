package egresstest

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// saw is one line of output of secret_answers.py.
type saw struct {
	Name  string
	Bytes int
	Found []string // spellings of the value
	Saw   string
}

// TestSecretStaysOutside has a server return the value in all ways, and searches for it everywhere.
func TestSecretStaysOutside(t *testing.T) {
	requirePrograms(t, "curl")
	a := &api{value: newValue()}
	w := newWorld(t, map[string]http.Handler{bound: a.listen(bound, a.ownHandlers()),
		"front.test": a.listen("front.test", http.NotFoundHandler())})
	w.serveTLS(&tls.Config{Certificates: []tls.Certificate{w.cert}, NextProtos: []string{"http/1.1"}}, "8443",
		a.listen(bound, a.ownHandlers()))
	const who = ordinary
	w.bind(t, who, "API_KEY", a.value, "--host", bound, "--host", bound+":8443")
	out := filepath.Join(w.dir, "out"+who)
	os.Mkdir(out, 0o777)
	os.Chmod(out, 0o777)
	r := w.run(who, "secret_answers.py", "--secret", "API_KEY", "--allow", bound, "--allow", bound+":8443", "--allow", "front.test", "--input",
		w.needles(a.value), "--artifacts", out, "--", [...]string{"some", "all"}[hosttest.Rounds(0, 1)])
	lines := 0
	for line := range strings.Lines(r.Stdout) {
		var s saw
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines++
		if len(s.Found) > 0 {
			t.Errorf("%s: the value is inside: %v %q", s.Name, s.Found, s.Saw)
		}
		if s.Name == "memory" && s.Bytes < 1<<20 {
			t.Errorf("only %d bytes of memory were looked at", s.Bytes)
		}
	}
	if r.Ended != "ok" || lines < hosttest.Rounds(140, 350) {
		t.Errorf("%d lines, ended %s, %+v, %s", lines, r.Ended, r.Refused, r.Stderr)
	}
	got := a.takeRequests()
	for _, h := range got {
		if has := strings.Contains(h.all(), a.value); has != (h.name == bound) {
			t.Errorf("%s has the value: %v: %.300q", h.name, has, h.all())
		}
	}
	if len(got) < hosttest.Rounds(120, 300) {
		t.Errorf("%d requests", len(got))
	}
	left, err := os.ReadFile(filepath.Join(out, "artifact.bin"))
	if err != nil {
		t.Error(err)
	}
	clean(t, "the artifact", string(left), a.value)
	w.cleanRun(t, who, r, a.value)
}
