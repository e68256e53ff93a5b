package egresstest

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretByClumsyUser types likely mistakes, and checks that messages contain the remedy.
func TestSecretByClumsyUser(t *testing.T) {
	requirePrograms(t, "curl")
	a := &api{value: newValue()}
	w := newWorld(t, map[string]http.Handler{bound: a.listen(bound, a.ownHandlers())})
	script := w.write("ask.sh", "echo \"${#KEY}\"; curl -sS -m 3 -H \"X-Api-Key: $KEY\" https://"+bound+"/ok\n")
	try := func(stdin string, args ...string) (string, int) {
		t.Helper()
		cmd := w.onHost("", append([]string{w.program}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, errs, _ := w.runAndLog(cmd)
		clean(t, strings.Join(args, " "), out+errs, a.value)
		return out + errs, cmd.ProcessState.ExitCode()
	}
	add := func(value string, flags ...string) []string {
		return append([]string{value, "vault", "add", "KEY", "--stdin", "--replace"}, flags...)
	}
	run := func(flags ...string) []string { return append([]string{"", "run", script}, flags...) }
	for _, c := range []struct {
		args []string // the first is piped in
		code int      // curl's exit code if it fails
		says []string
	}{
		{add(a.value, "--require"), 2, []string{"--host api.example.com"}},
		{add(a.value, "--host", "https://"+bound), 2, []string{"not a URL"}},
		{add(a.value, "--host", bound+"/v1"), 2, []string{"bare host name"}},
		{add(a.value, "--host", "*"), 2, []string{"every name"}},
		{add(a.value, "--host", "203.0.113.15"), 2, []string{"use the host's name"}},
		{add(a.value, "--host", "localhost"), 2, []string{"localhost"}},
		{add(a.value+"\nmore", "--host", bound), 1, []string{"line break"}},
		{add("", "--host", bound), 2, []string{"empty"}},
		{run("--secret", "KEY"), 125, []string{"not in the vault", "sandboxmcp vault add KEY"}},
		{add(a.value+"\n", "--host", strings.ToUpper(bound)+"."), 0, []string{"added KEY"}},
		{run("--secret", "KEY", "--allow", bound), 0, []string{"43", "ok known"}},
		{run("--secret", "KEY"), 6, []string{"warning", bound, "--allow"}},
		{run("--secret", "KEY", "--allow", "front.test"), 6, []string{"warning", bound, "--allow"}},
		{run("--secret", "KEY", "--allow", bound+":8443"), 7, []string{"warning", "--allow"}},
		{run("--secret", "KEY", "--allow", bound, "--env", "KEY="+"mine"), 125, []string{"both a secret and an environment variable"}},
		{add(a.value, "--host", bound+":8443"), 0, []string{bound + ":8443"}},
		{run("--secret", "KEY", "--allow", bound), 0, []string{"warning", bound + ":8443", "ok unknown"}},
		{add(a.value, "--host", "*.example.test"), 0, nil},
		{run("--secret", "KEY", "--allow", bound), 0, []string{"warning", "*.example.test", "ok unknown"}},
	} {
		output, code := try(c.args[0], c.args[1:]...)
		for _, want := range c.says {
			if !strings.Contains(strings.ToLower(output), strings.ToLower(want)) {
				t.Errorf("%v: nothing of %q: %s", c.args[1:], want, output)
			}
		}
		if code != c.code {
			t.Errorf("%v: exit code %d: %s", c.args[1:], code, output)
		}
	}
	a.takeRequests()
	key := filepath.Join(w.dir, "home", "state", "sandboxmcp", "vault.key")
	for what, change := range map[string]func() error{
		"missing":     func() error { return os.Rename(key, key+".away") },
		"cut off":     func() error { return os.Truncate(key, 20) },
		"not own":     func() error { return os.Chmod(key, 0o644) },
		"a directory": func() error { return os.Mkdir(key, 0o700) },
		"other one":   func() error { return os.WriteFile(key, []byte("AGE-SECRET-KEY-1"+strings.Repeat("Q", 58)+"\n"), 0o600) },
	} {
		saved, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		if what == "a directory" {
			os.Remove(key)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{run("--secret", "KEY", "--allow", bound), add(a.value, "--host", bound)} {
			if output, code := try(args[0], args[1:]...); code == 0 || !strings.Contains(output, "key") {
				t.Errorf("vault.key %s: %v: exit code %d: %s", what, args[1:], code, output)
			}
		}
		os.RemoveAll(key)
		if err := os.WriteFile(key, saved, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := a.takeRequests(); len(got) > 0 {
		t.Errorf("without the key: %v", got)
	}
}
