package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTemplates checks that templates have a backend and a profile, and that other keys are refused with their place.
func TestTemplates(t *testing.T) {
	load := func(text string) (Config, error) {
		name := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(Options{File: name, Env: []string{"HOME=/home/x"}})
	}
	c, err := load("http:\n  templates:\n    data: {backend: podman}\n    base: {profile: hardened}\n")
	if err != nil || c.HTTP.Templates["data"].Backend != "podman" || c.HTTP.Templates["base"].Profile != "hardened" {
		t.Errorf("got %v, %v", c.HTTP.Templates, err)
	}
	for text, want := range map[string]string{
		"data: {backend: other}":                    `:3: http.templates.data.backend: "other" is not known`,
		"data: {image: x}":                          ":3: http.templates.data.image: unknown key",
		strings.Repeat("x", maxTemplate+1) + ": {}": ":3: http.templates: a template's name",
	} {
		if _, err := load("http:\n  templates:\n    " + text + "\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
