package outbound

import (
	"context"
	"encoding/base64"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/vault"
)

// shop has secrets by name, which are all bound.
type shop map[string]vault.Binding

func (s shop) Get(_ context.Context, _, key string) ([]byte, vault.Binding, error) {
	to, ok := s[key]
	if !ok {
		return nil, to, vault.ErrNotFound
	}
	return []byte("the-value-of-" + key), to, nil
}

// lending is an egress session of a run with a lease of these secrets, and their placeholders by name.
func lending(t *testing.T, s shop, names ...string) (*Session, map[string]string) {
	t.Helper()
	lease, err := vault.New(s).Lease(t.Context(), "team", names)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lease.Close)
	o, err := New(Config{Ports: []int{443}, Leases: func() vault.Leases { return vault.Leases{lease} }, TrustCA: true})
	if err != nil {
		t.Fatal(err)
	}
	stands := map[string]string{}
	for _, b := range lease.Bound() {
		stands[b.Name] = b.Placeholder
	}
	return o, stands
}

// gitWith runs git with these variables.
func gitWith(t *testing.T, env []string, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin:/usr/local/bin", "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}, env...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestGitFills asks the real git which credentials it would use for a URL.
func TestGitFills(t *testing.T) {
	hosttest.Program(t, "git")
	o, stands := lending(t, shop{
		"API_KEY":      {Hosts: []string{"git.example.com", "api.example.com"}},
		"GITHUB_TOKEN": {Hosts: []string{"GIT.example.com.", "raw.example.com"}},
		"GITLAB_TOKEN": {Hosts: []string{"lab.example.com:8443", "own.example.com:3000", "old.example.com:80"}},
		"HF_TOKEN":     {Hosts: []string{"*.example.org"}},
	}, "API_KEY", "GITHUB_TOKEN", "GITLAB_TOKEN", "HF_TOKEN")
	env := o.GitEnv(nil)
	for _, c := range []struct{ url, user, of string }{
		{"https://git.example.com/a/b.git", "x-access-token", "GITHUB_TOKEN"}, // a known name goes first
		{"https://me@git.example.com/a/b.git", "me", "GITHUB_TOKEN"},
		{"https://api.example.com/a", "git", "API_KEY"},
		{"http://git.example.com/a", "", ""}, // the relay would not fill it in, either
		{"https://git.example.com:8443/a", "", ""},
		{"https://git.example.com.evil.test/a", "", ""},
		{"https://evil.test/git.example.com", "", ""},
		{"https://lab.example.com:8443/a", "oauth2", "GITLAB_TOKEN"},
		{"https://lab.example.com/a", "", ""},
		{"http://lab.example.com:8443/a", "", ""},
		{"https://own.example.com:3000/a", "oauth2", "GITLAB_TOKEN"},
		{"http://own.example.com:3000/a", "oauth2", "GITLAB_TOKEN"},
		{"http://old.example.com/a", "oauth2", "GITLAB_TOKEN"},
		{"https://old.example.com/a", "", ""},
		{"https://hub.example.org/a", "git", "HF_TOKEN"},
		{"https://example.org/a", "", ""},
		{"https://a.b.example.org/a", "", ""}, // git's star is one label
	} {
		out, err := gitWith(t, env, "url="+c.url+"\n\n", "credential", "fill")
		if c.of == "" {
			if err == nil || !strings.Contains(out, "terminal prompts disabled") || strings.Contains(out, "sandboxmcp_") {
				t.Errorf("%s: %v, %s", c.url, err, out)
			}
			continue
		}
		if err != nil || !strings.Contains(out, "username="+c.user+"\n") || !strings.Contains(out, "password="+stands[c.of]+"\n") {
			t.Errorf("%s: %v, got %s, want %s and the placeholder of %s", c.url, err, out, c.user, c.of)
		}
	}
	if strings.Contains(strings.Join(env, "\n"), "the-value") {
		t.Error("a value is in the environment")
	}
}

// TestGitSends has the header where each request has to carry the secret, and only there.
func TestGitSends(t *testing.T) {
	hosttest.Program(t, "git")
	o, stands := lending(t, shop{
		"GITEA_TOKEN":  {Hosts: []string{"must.example.com"}, Require: true},
		"GITHUB_TOKEN": {Hosts: []string{"may.example.com"}},
	}, "GITEA_TOKEN", "GITHUB_TOKEN")
	for url, want := range map[string]string{
		"https://must.example.com/a":     "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+stands["GITEA_TOKEN"])),
		"https://may.example.com/a":      "",
		"https://must.example.com.b.c/a": "",
		"http://must.example.com/a":      "",
	} {
		if out, _ := gitWith(t, o.GitEnv(nil), "", "config", "--get-urlmatch", "http.extraHeader", url); strings.TrimSpace(out) != want {
			t.Errorf("%s: got %q, want %q", url, out, want)
		}
	}
}

// TestGitPreserves checks that the caller's own configuration of git stays as it was.
func TestGitPreserves(t *testing.T) {
	hosttest.Program(t, "git")
	o, _ := lending(t, shop{"GITHUB_TOKEN": {Hosts: []string{"git.example.com"}}}, "GITHUB_TOKEN")
	own := []string{"GIT_CONFIG_COUNT=7", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=user.name", "GIT_CONFIG_VALUE_0=Ada",
		"GIT_TERMINAL_PROMPT=1"}
	env := slices.Concat(own, o.GitEnv(own))
	if out, err := gitWith(t, env, "", "config", "user.name"); err != nil || out != "Ada\n" {
		t.Errorf("user.name: %v, %q", err, out)
	}
	if out, err := gitWith(t, env, "", "config", "credential.https://git.example.com.username"); err != nil || out != "x-access-token\n" {
		t.Errorf("credential: %v, %q", err, out)
	}
	if slices.Contains(env, "GIT_TERMINAL_PROMPT=0") {
		t.Error("the caller's GIT_TERMINAL_PROMPT is overruled")
	}
	for _, count := range []string{"one", "-1", "99999999999999999999"} {
		if got := o.GitEnv([]string{"GIT_CONFIG_COUNT=" + count}); got != nil {
			t.Errorf("a count %q: got %q", count, got)
		}
	}
	if got := o.GitEnv([]string{"GIT_CONFIG_COUNT="}); len(got) == 0 { // which git takes for none
		t.Error("an empty count")
	}
}

func TestGitHasNothing(t *testing.T) {
	var none *Session
	if got := none.GitEnv(nil); got != nil {
		t.Errorf("without a way out: %q", got)
	}
	o, err := New(Config{Ports: []int{443}})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.GitEnv(nil); got != nil {
		t.Errorf("without secrets: %q", got)
	}
	many := shop{}
	for i := range 100 {
		b := many["A_TOKEN"]
		b.Hosts = append(b.Hosts, fmt.Sprintf("h%d.example.com", i))
		many["A_TOKEN"] = b
	}
	if o, _ = lending(t, many, "A_TOKEN"); len(o.GitEnv(nil)) != 2+2*2*100 {
		t.Errorf("%d variables for 100 hosts", len(o.GitEnv(nil)))
	}
}
