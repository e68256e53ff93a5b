package e2b

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/mcp/sessions"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
)

// example returns the first code block of a language in a section of the README.
func example(t *testing.T, section, language string) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n### "+section+"\n")
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(rest)
	if !found || block == nil {
		t.Fatalf("README.md has no %s in %s", language, section)
	}
	return block[1]
}

// TestREADMEExamples runs the README's Python and TypeScript examples, with the SDKs in NODE_PATH or Python's modules
// if installed.
func TestREADMEExamples(t *testing.T) {
	r := newRig(t, nil)
	mux := sessions.New(sessions.Config{Pipeline: r.p})
	plain := httptest.NewServer(identity.New(identity.Config{Tokens: r.tokens, Rate: 1e6}).Middleware(mux))
	t.Cleanup(plain.Close)
	key := r.key("sdk", identity.Agent, "sdk")
	token, _ := identity.FromE2B(key)
	env := append(os.Environ(), "E2B_API_KEY="+key, "E2B_API_URL="+r.url, "E2B_SANDBOX_URL="+r.url, "SESSIONS_URL="+plain.URL,
		"SESSIONS_TOKEN="+token)
	for _, c := range []struct {
		section, language, program, file string
		has                              []string // a command that fails where the example can't run
	}{
		{"SDKs of E2B", "python", "python3", "a.py", []string{"python3", "-c", "import e2b_code_interpreter"}},
		{"SDKs of E2B", "ts", "node", "a.mjs", []string{"node", "-e", "require('@e2b/code-interpreter')"}},
		{"Session API", "python", "python3", "a.py", []string{"python3", "-c", "import json, urllib.request"}},
		{"Session API", "ts", "node", "a.mjs", []string{"node", "-e", "if (!globalThis.fetch) throw 1"}},
	} {
		t.Run(c.section+" "+c.language, func(t *testing.T) {
			if out, err := exec.Command(c.has[0], c.has[1:]...).CombinedOutput(); err != nil {
				hosttest.SkipMissing(t, "client", strings.Join(c.has, " ")+": "+string(out)+err.Error())
			}
			dir := t.TempDir()
			if modules := os.Getenv("NODE_PATH"); modules != "" { // imports ignore NODE_PATH
				if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(example(t, c.section, c.language)), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(c.program, c.file)
			cmd.Dir, cmd.Env = dir, env
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "42\n" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
