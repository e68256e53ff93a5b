package egresstest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// attempt is one line of output of attacks.py.
type attempt struct {
	Name       string
	Start, End float64 // Unix time
	Saw        string
	Reached    bool
	Unexpected string // another deviation
}

func attempts(t *testing.T, stdout string) (all []attempt) {
	t.Helper()
	for line := range strings.Lines(stdout) {
		var a attempt
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, a)
	}
	return all
}

// during returns the events that arrived while an attack ran, and just after.
func during(a attempt, events []event) (some []event) {
	for _, e := range events {
		at := float64(e.at.UnixMicro()) / 1e6
		if at >= a.Start && at <= a.End+0.02 {
			some = append(some, e)
		}
	}
	return some
}

// attackable returns flags for the names that are allowed during attacks: of some sites, and all those with
// misleading addresses.
func attackable() (flags []string) {
	for _, name := range append([]string{"example.test", "front.test", "exact.example", "echo.test:7000"}, namesOf(bad)...) {
		flags = append(flags, "--allow", name)
	}
	return flags
}

// TestRefused runs attacks, as root and as an ordinary user, and checks which packets arrived outside.
func TestRefused(t *testing.T) {
	requirePrograms(t, "curl")
	w := newWorld(t, nil)
	t.Run("an ordinary user", func(t *testing.T) { w.refuses(t, ordinary, true, attackable()...) })
	t.Run("root", func(t *testing.T) { w.refuses(t, "", hosttest.Rounds(0, 1) == 1, attackable()...) })
}

// refuses runs all attacks, or one of each kind: only the gateway distinguishes attacks of one kind, and it is the
// same for every user.
func (w *world) refuses(t *testing.T, who string, all bool, flags ...string) {
	t.Helper()
	least := 600
	if !all {
		flags = append(flags, "--", "one of each")
		least = 40
	}
	w.takeEvents()
	r := w.run(who, "attacks.py", flags...)
	if r.Ended != "ok" {
		t.Fatalf("ended %s %s, %+v, stderr %s, stdout %.300s", r.Ended, r.Limit, r.Refused, r.Stderr, r.Stdout)
	}
	events := w.settled()
	tried := attempts(t, r.Stdout)
	for _, a := range tried {
		checkAttempt(t, a, during(a, events))
	}
	if last := tried[len(tried)-1]; last.Saw != "well" || len(tried) < least {
		t.Errorf("after %d attacks: %+v", len(tried), last)
	}
	w.stays(t, events, attackable())
	checkRecords(t, r, all)
	t.Logf("%d attacks, %d events, %d records", len(tried), len(events), len(r.Egress))
}

func checkAttempt(t *testing.T, a attempt, events []event) {
	t.Helper()
	if a.Unexpected != "" {
		t.Error(a.Unexpected)
		return
	}
	for _, c := range leftovers(events, attackable()) {
		t.Errorf("%s: %s", a.Name, c)
	}
}

// checkRecords checks that the result lists the refusals with their reasons.
func checkRecords(t *testing.T, r result, all bool) {
	t.Helper()
	for i, want := range []struct {
		name string
		port int
		why  string
	}{
		{"other.example", 0, "ask for the domain other.example"},
		{"private.example", 80, "10.9.0.9"},
		{"front.test", 80, "hidden.test"},
		{"sub.example.test", 0, "ask for the domain sub.example.test"},
		{"metadata.example", 80, "169.254.169.254"},
		{"loopback.example", 443, "127.0.0.1"},
		{"ula.example", 80, "fd00:9::9"},
		{"mapped.example", 80, "10.9.0.9"},
		{"front.test", 443, "hidden.test"},
	} {
		ok := false
		for _, d := range r.Egress {
			ok = ok || d.Name == want.name && (want.port == d.Port) && !d.Allowed && strings.Contains(d.Reason, want.why)
		}
		if !ok && (all || i < 3) {
			t.Errorf("no record says that %s:%d was refused because of %q", want.name, want.port, want.why)
		}
	}
	for _, d := range r.Egress {
		if d.Reason == "" || strings.Contains(d.Reason, "\n") {
			t.Errorf("no reason: %+v", d)
		}
	}
	if n := len(r.Egress); n > 2000 {
		t.Errorf("%d records", n)
	}
}

// TestRefusedTools checks that everyday tools fail by themselves, with fitting messages.
func TestRefusedTools(t *testing.T) {
	requirePrograms(t, "curl", "wget", "git", "node", "npm", "psql", "ssh")
	w := newWorld(t, nil)
	allow := []string{"--allow", "private.example", "--allow", "private.example:22", "--allow", "private.example:5432"}
	r := w.run("", "refused.sh", allow...)
	lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	if len(lines) != 18 {
		t.Errorf("%d lines, want 18: %s", len(lines), r.Stderr)
	}
	for _, line := range lines {
		var tool, output string
		var code int
		if n, _ := fmt.Sscan(line, &tool, &code, &output); n != 3 || code == 124 { // timeout(1) had to end it
			t.Error(line)
		}
	}
	w.stays(t, w.settled(), allow)
	for _, want := range []struct {
		name string
		port int
	}{{"other.example", 0}, {"private.example", 443}, {"private.example", 22}, {"private.example", 5432}} {
		if d := r.decided(want.name, want.port, false); d == nil || d.Reason == "" {
			t.Errorf("%s:%d: got %+v in %+v", want.name, want.port, d, r.Egress)
		}
	}
}
