package podman

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/cli/cli/config/types"
)

func TestRegistryAuth(t *testing.T) {
	dir := t.TempDir()
	word := func(user string) string { return base64.StdEncoding.EncodeToString([]byte(user + ":word:of " + user)) }
	file := map[string]any{"auths": map[string]any{
		"https://index.docker.io/v1/": map[string]string{"auth": word("hub")},
		"images.example.com":          map[string]string{"auth": word("quay")},
		"images.example.com/deep/er":  map[string]string{"auth": word("deep")},
		"localhost:5000":              map[string]string{"auth": word("here")},
		"helper.example":              map[string]string{},
	}}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "auth.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	env := environ{"REGISTRY_AUTH_FILE": name}
	for _, test := range []struct{ reference, registry, user string }{
		{"python:3.12", "docker.io", "hub"},
		{"someone/thing", "docker.io", "hub"},
		{"docker.io/library/python@sha256:" + strings.Repeat("0", 64), "docker.io", "hub"},
		{"images.example.com/one", "images.example.com", "quay"},
		{"images.example.com/deep/erer:1", "images.example.com", "quay"},
		{"images.example.com/deep/er:1", "images.example.com", "deep"},
		{"images.example.com/deep/er/est:1", "images.example.com", "deep"},
		{"localhost:5000/a:b", "localhost:5000", "here"},
		{"helper.example/a", "", ""},
		{"elsewhere.example/a", "", ""},
	} {
		h, err := env.registryAuth(test.reference)
		if err != nil {
			t.Errorf("%s: %v", test.reference, err)
			continue
		}
		if test.user == "" {
			if h != nil {
				t.Errorf("%s: a login is sent", test.reference)
			}
			continue
		}
		plain, err := base64.URLEncoding.DecodeString(h["X-Registry-Auth"][0])
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]types.AuthConfig
		if err := json.Unmarshal(plain, &got); err != nil {
			t.Fatal(err)
		}
		if want := (types.AuthConfig{Username: test.user, Password: "word:of " + test.user}); len(got) != 1 || got[test.registry] != want {
			t.Errorf("%s: got %v, want %v for %s", test.reference, got, want, test.registry)
		}
	}
}

func FuzzFindLogin(f *testing.F) {
	f.Add([]byte(`{"auths":{"a.b/c":{"auth":"YTpi"}}}`), "a.b", "c/d")
	f.Fuzz(func(t *testing.T, data []byte, registry, repository string) {
		if _, ok, err := findLogin(data, registry, repository); ok && err != nil {
			t.Error("found, and an error")
		}
	})
}
