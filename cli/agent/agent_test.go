package agent

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/cli/config"
	"github.com/sandboxmcp/sandboxmcp/cli/setup"
	"github.com/sandboxmcp/sandboxmcp/egress"
)

// write makes files below dir.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAgents checks the rows of the built-in agents.
func TestAgents(t *testing.T) {
	for _, a := range setup.Agents() {
		for _, hosts := range []string{a.Hosts, a.SignIn, a.Noise} {
			if _, err := egress.NewPolicy(strings.Fields(hosts), nil); err != nil {
				t.Errorf("%s: %v", a.Name, err)
			}
		}
		for _, kv := range a.Env {
			if name, _, ok := strings.Cut(kv, "="); !ok || strings.Contains(name, " ") {
				t.Errorf("%s: %q is not a variable", a.Name, kv)
			}
		}
		if len(a.Keys) == 0 || a.Program == "" {
			t.Errorf("%s has no key or no program", a.Name)
		}
		for _, name := range a.Settings {
			if !filepath.IsLocal(name) || strings.Contains(name, "credential") || strings.Contains(name, "auth") {
				t.Errorf("%s: %s is copied from the person's home", a.Name, name)
			}
		}
	}
}

func TestProgramMounts(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{
		"lib/node_modules/@x/agent/bin/agent.js": "", "bin/agent": "", "python/bin/python3.12": "",
		"tools/aider/bin/aider": "", "tools/aider/pyvenv.cfg": "home = " + dir + "/python/bin\nversion = 3.12\n",
	})
	for program, want := range map[string][]string{
		"lib/node_modules/@x/agent/bin/agent.js": {"lib/node_modules"},
		"bin/agent":                              {"bin/agent"},
		"tools/aider/bin/aider":                  {"tools/aider", "python"},
	} {
		var got []string
		for _, m := range programMounts(filepath.Join(dir, program)) {
			rest, _ := filepath.Rel(dir, m.Host)
			if got = append(got, rest); m.Write || m.Inside != m.Host {
				t.Errorf("%s: %+v", program, m)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", program, got, want)
		}
	}
	if got := programMounts("/usr/bin/agent"); got != nil {
		t.Errorf("a program of the system: %v", got)
	}
}

// TestMakeHome checks which of the person's files a new home has: none without a yes, no links, and no tokens.
func TestMakeHome(t *testing.T) {
	person := t.TempDir()
	t.Setenv("HOME", person)
	token := "ghp_" + rand.Text() + rand.Text()[:10]
	write(t, person, map[string]string{".x/rules.md": "be brief", ".x/commands/a.md": "token " + token, ".ssh/id": "private",
		".x/auth.json": "private"})
	if err := os.Symlink("../../.ssh/id", filepath.Join(person, ".x/commands/link.md")); err != nil {
		t.Fatal(err)
	}
	a := setup.Agent{Name: "x", Settings: []string{".x/rules.md", ".x/commands", ".x/none"}, Files: map[string]string{".x/own.json": "{}"}}
	for _, yes := range []bool{false, true} {
		home := filepath.Join(t.TempDir(), "home")
		var asked []string
		for range 2 { // a home is made once
			if err := makeHome(a, home, func(names []string) bool { asked = append(asked, names...); return yes }); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(asked, a.Settings[:2]) {
			t.Errorf("asked about %q", asked)
		}
		rules, _ := os.ReadFile(filepath.Join(home, ".x/rules.md"))
		command, _ := os.ReadFile(filepath.Join(home, ".x/commands/a.md"))
		if (string(rules) == "be brief") != yes || strings.Contains(string(command), token) ||
			strings.HasPrefix(string(command), "token ") != yes {
			t.Errorf("with %v it has %q and %q", yes, rules, command)
		}
		for _, name := range []string{".x/commands/link.md", ".x/auth.json", ".ssh"} {
			if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
				t.Errorf("it has %s", name)
			}
		}
		if own, _ := os.ReadFile(filepath.Join(home, ".x/own.json")); string(own) != "{}" {
			t.Errorf("its own file has %q", own)
		}
	}
}

// TestPolicy checks that an accepted policy is one content in one place.
func TestPolicy(t *testing.T) {
	cfg := config.Config{StateDir: t.TempDir()}
	first, second := t.TempDir(), t.TempDir()
	write(t, first, map[string]string{policyName: "allow: [a.example]\n"})
	write(t, second, map[string]string{policyName: "allow: [a.example]\n"})
	p, err := readPolicy(first)
	if err != nil || isTrusted(cfg, p) {
		t.Fatalf("got %+v, %v", p, err)
	}
	if err := trust(cfg, p); err != nil || !isTrusted(cfg, p) {
		t.Errorf("it is not accepted: %v", err)
	}
	if other, _ := readPolicy(second); isTrusted(cfg, other) {
		t.Error("it is accepted in another project, too")
	}
	write(t, first, map[string]string{policyName: "allow: [a.example, b.example]\n"})
	if p, _ = readPolicy(first); isTrusted(cfg, p) {
		t.Error("another content is accepted")
	}
	if err := remember(cfg, first, []string{"c.example", "a.example"}); err != nil {
		t.Fatal(err)
	}
	if p, err = readPolicy(first); err != nil || !isTrusted(cfg, p) ||
		!slices.Equal(p.Allow, []string{"a.example", "b.example", "c.example"}) {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, text := range []string{"allow: [localhost:3000]", "allow: ['*']", "allow: x", "networks: [10.0.0.0/8]",
		"allow: [a.example]\n---\nx"} {
		write(t, second, map[string]string{policyName: text})
		if p, err := readPolicy(second); err == nil && len(p.Allow) > 1 {
			t.Errorf("%q became %q", text, p.Allow)
		} else if err == nil && !strings.Contains(text, "---") {
			t.Errorf("%q is taken", text)
		}
	}
	if err := os.Remove(filepath.Join(second, policyName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(first, policyName), filepath.Join(second, policyName)); err != nil {
		t.Fatal(err)
	}
	if _, err := readPolicy(second); err == nil {
		t.Error("a link is read")
	}
}

func TestRegistryHosts(t *testing.T) {
	dir, bin := filepath.Join(t.TempDir(), "a[b]"), t.TempDir()
	write(t, dir, map[string]string{"go.mod": "", "requirements-dev.txt": "", "sub/package.json": ""})
	for name, prints := range map[string]string{
		"go":   "https://proxy.example.com,https://second.example.com|direct\nsum.example.org",
		"pip3": "  -i, --index-url <url>  Base URL (default https://pypi.org/simple). This should\n",
		"npm":  "https://npm.example.com/",
	} {
		script := "#!/bin/sh\nprintf '%s\\n' '" + prints + "'\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	want := "pypi.org files.pythonhosted.org proxy.example.com second.example.com sum.example.org"
	if got := registryHosts(t.Context(), dir); strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
