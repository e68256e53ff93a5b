package egresstest

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAttacksWork runs the attacks on the host, without a sandbox: an attack that reaches nothing there would prove
// nothing.
func TestAttacksWork(t *testing.T) {
	requirePrograms(t, "curl")
	w := newWorld(t, nil)
	file, err := filepath.Abs("testdata/attacks.py")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{ // minimum successes per kind, in percent
		"name_by_http": 80, "name_looked_up": 90, "wrong_port 'echo": 50, "wrong_port 'example.test 8080": 100, "literal '203": 100,
		"literal '0x": 100, "literal '10": 100, "literal '2001": 100, "literal '169": 100, "literal '::ffff:10": 100, "literal '64:": 100,
		"literal_by_https": 100, "dns_elsewhere '203": 100,
		"dns_tunnel_by_libc": 100, "udp_443 '203": 100, "unix_socket '\\x00": 100, "tls 'other": 80, "http 'other": 100, "http 'absolute": 50,
		"http 'second": 100, "http 'two hosts": 50, "smuggle 'second": 100, "redirect 'http' 'http:": 50, "leads_elsewhere 'private": 100,
		"leads_elsewhere 'nat64": 100, "leads_elsewhere 'loopback'": 100, "leads_elsewhere 'host": 100, "rebind": 100, "many_names": 100,
		"kept_address": 100,
	}
	out, errs, err := w.runAndLog(w.onHost("", append([]string{"python3", file}, slices.Collect(maps.Keys(kinds))...)...))
	if err != nil {
		t.Fatalf("%v: %s", err, errs)
	}
	events, tried := w.settled(), attempts(t, out)
	for kind, least := range kinds {
		all := slices.DeleteFunc(slices.Clone(tried), func(a attempt) bool { return !strings.HasPrefix(a.Name, kind) })
		hits, missed := 0, ""
		for _, a := range all {
			if len(leftovers(during(a, events), attackable())) > 0 {
				hits++
			} else {
				missed += "\n" + a.Name + ": " + a.Saw
			}
		}
		if len(all) == 0 || hits*100 < least*len(all) {
			t.Errorf("%s: %d of %d reach anything without a sandbox:%s", kind, hits, len(all), missed)
		}
	}
}

// TestNoticed allows the targets of the attacks, which must then be noticed.
func TestNoticed(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ allow, attack, want string }{
		{"other.example", "name_by_http 'other", "a query left"},
		{"other.example", "name_by_https 'other", "a server was reached"},
		{"echo.test", "wrong_port 'echo.test 80'", "a packet left"},
	} {
		w.takeEvents()
		r := w.run("", "attacks.py", append(attackable(), "--allow", c.allow, "--", c.attack)...)
		if got := strings.Join(leftovers(w.settled(), attackable()), "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s with %s allowed: got %q, want %q; it saw %s", c.attack, c.allow, got, c.want, r.Stdout)
		}
	}
}
