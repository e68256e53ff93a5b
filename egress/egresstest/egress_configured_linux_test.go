package egresstest

import (
	"strings"
	"testing"
)

// TestConfigured reads the allowed hosts from the operator's file, and not from the command line.
func TestConfigured(t *testing.T) {
	w := newWorld(t, nil)
	const reach = `import sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(url, "reached" if b"canary" in urllib.request.urlopen(url, timeout=3).read() else "odd")
    except OSError as e:
        print(url, "refused")
`
	script := w.write("reach.py", reach)
	all := []string{"http://front.test/", "http://sub.example.test/", "http://private.example/", "http://private172.example/",
		"http://metadata.example/", "http://loopback.example/"}
	for _, c := range []struct {
		name, file string
		flags      []string
		reached    string // all reached places
	}{
		{"nothing", "", nil, ""},
		{"allowed", "egress:\n  allow: [front.test, '*.example.test']\n", nil, "01"},
		{"the command line says otherwise", "egress:\n  allow: [front.test]\n", []string{"--allow", "sub.example.test"}, "1"},
		{"no network", "egress:\n  allow: [front.test]\n", []string{"--no-network"}, ""},
		{"denied", "egress:\n  allow: [front.test, '*.example.test']\n  deny: [sub.example.test]\n", nil, "0"},
		{"denied to a person, too", "egress:\n  deny: [sub.example.test]\n", []string{"--allow", "sub.example.test", "--allow", "front.test"},
			"0"},
		{"private", "egress:\n  allow: [private.example, private172.example]\n", nil, ""},
		{"a network", "egress:\n  allow: [private.example, private172.example, metadata.example, loopback.example]\n  networks: [10.9.0.0/24]\n",
			nil, "2"},
		{"a resolver", "egress:\n  allow: [front.test]\n  resolver: \"" + nameServer + ":53\"\n", nil, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := *w
			w.T = t
			args := []string{w.program, "--config", w.write("sandboxmcp.yaml", c.file), "run", "--quiet", script}
			args = append(append(append(args, c.flags...), "--"), all...)
			out, errs, err := w.runAndLog(w.onHost("", args...))
			var got strings.Builder
			for i, url := range all {
				if strings.Contains(out, url+" reached") {
					got.WriteByte(byte('0' + i))
				}
			}
			if err != nil || got.String() != c.reached || strings.Count(out, "\n") != len(all) {
				t.Errorf("got %s, want %s: %v: %s%s", got.String(), c.reached, err, out, errs)
			}
		})
	}
}
