package egresstest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestSecretGoesNowhereElse has a program send a placeholder in many places, and its own credentials where a secret
// is required. The servers report the requests.
func TestSecretGoesNowhereElse(t *testing.T) {
	requirePrograms(t, "curl")
	const strict = "both.test"
	a, required := &api{value: newValue()}, newValue()
	ownKey := "own" + "key"
	w := newWorld(t, map[string]http.Handler{
		bound: a.listen(bound, a.ownHandlers()), "front.test": a.listen("front.test", http.NotFoundHandler()),
		strict: a.listen(strict, (&api{value: required}).ownHandlers()),
	})
	w.bind(t, "", "API_KEY", a.value, "--host", bound)
	w.bind(t, "", "REQUIRED_KEY", required, "--host", strict, "--require")
	first := w.run("", "secret_first.py", "--secret", "API_KEY", "--allow", bound)
	old := strings.TrimSpace(first.Stdout)
	if !strings.HasPrefix(old, "sandboxmcp_") {
		t.Fatalf("%+v", first)
	}
	a.takeRequests()
	w.takeEvents()
	r := w.run("", "secret_attacks.py", "--secret", "API_KEY", "--secret", "REQUIRED_KEY", "--allow", bound, "--allow", "front.test",
		"--allow", strict, "--", old, [...]string{"some", "all"}[hosttest.Rounds(0, 1)])
	if r.Ended != "ok" {
		t.Fatalf("%+v", r)
	}
	known := 0
	for line := range strings.Lines(r.Stdout) {
		var s saw
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(s.Name, "good: ") && !strings.Contains(s.Saw, " 200") {
			t.Errorf("%s: %s", s.Name, s.Saw)
		}
	}
	for _, h := range a.takeRequests() {
		elsewhere := h
		if h.tls && h.name == bound {
			// Here the value is permitted, in these places.
			elsewhere.header, elsewhere.uri = http.Header{}, strings.Split(h.uri, "?")[0]
			if strings.Contains(h.all(), a.value) {
				known++
			}
		}
		if strings.Contains(elsewhere.all(), a.value) || strings.Contains(h.all(), required) && h.name != strict {
			t.Errorf("%s has a value: %.400q", h.name, h.all())
		}
		if h.name == strict && (!strings.Contains(h.all(), required) || strings.Contains(strings.ToLower(h.all()), ownKey) ||
			strings.Contains(h.uri, "own") || !h.tls) {
			t.Errorf("%s was asked without what it requires: %.400q", h.name, h.all())
		}
		if h.host != h.name && h.host != h.name+":443" && h.host != "" && h.name != "front.test" {
			t.Errorf("%s was asked for %s", h.name, h.host)
		}
	}
	if known < 7 {
		t.Errorf("only %d requests brought the value", known)
	}
	for _, e := range w.takeEvents() { // plaintext traffic
		if strings.Contains(e.text, a.value) || strings.Contains(e.text, required) {
			t.Errorf("unencrypted: %.300v", e)
		}
	}
	w.cleanRun(t, "", r, a.value)
	w.cleanRun(t, "", r, required)
}
