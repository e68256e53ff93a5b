package docker

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/registry"
)

func TestCredentials(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the helpers of this test are scripts")
	}
	bin, dir := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{
		"good":    `read s; [ "$1" = get ] && printf '{"ServerURL":"%s","Username":"me","Secret":"of-%s"}' "$s" "$s"`,
		"token":   `printf '{"Username":"<token>","Secret":"long"}'`,
		"nothing": `echo "credentials not found in native keychain"; exit 1`,
		"fails":   `echo half-of-it; exit 2`,
		"garbage": `echo hello`,
	} {
		if err := os.WriteFile(filepath.Join(bin, "docker-credential-"+name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	auth := base64.StdEncoding.EncodeToString([]byte("me:a:b"))
	writeFile(t, filepath.Join(dir, "config.json"), `{
		"auths": {"https://index.docker.io/v1/": {"auth": "`+auth+`"}, "https://plain.test/v2/": {"auth": "`+
		auth+`"}, "id.test": {"identitytoken": "t"},
			"empty.test": {}, "nothing.test": {"auth": "`+auth+`"}},
		"credHelpers": {"good.test": "good", "token.test": "token", "nothing.test": "nothing", "fails.test": "fails",
			"garbage.test": "garbage", "missing.test": "missing", "evil.test": "../../bin/sh"}}`)
	s, err := readSettings([]string{"DOCKER_CONFIG=" + dir, "PATH=" + bin + ":/usr/bin:/bin"})
	if err != nil {
		t.Fatal(err)
	}
	me := func(server, password string) registry.AuthConfig {
		return registry.AuthConfig{Username: "me", Password: password, ServerAddress: server}
	}
	for name, want := range map[string]registry.AuthConfig{
		"docker.io":    me("https://index.docker.io/v1/", "a:b"),
		"plain.test":   me("plain.test", "a:b"),
		"id.test":      {IdentityToken: "t", ServerAddress: "id.test"},
		"empty.test":   {},
		"unknown.test": {},
		"good.test":    me("good.test", "of-good.test"),
		"token.test":   {IdentityToken: "long", ServerAddress: "token.test"},
		"nothing.test": me("nothing.test", "a:b"),
	} {
		if got, err := s.credentials(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"fails.test", "garbage.test", "missing.test", "evil.test"} {
		got, err := s.credentials(t.Context(), name)
		if err == nil || got != (registry.AuthConfig{}) || strings.Contains(err.Error(), "half-of-it") {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	writeFile(t, filepath.Join(dir, "config.json"), `{"auths": {"broken.test": {"auth": "###"}}}`)
	if _, err := readSettings([]string{"DOCKER_CONFIG=" + dir}); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("credentials that are not in base64: got %v", err)
	}
}
