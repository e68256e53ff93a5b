package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCheckImage(t *testing.T) {
	for _, good := range []string{
		"python", "python:3.12-slim", "docker.io/library/python:3.12-slim", "localhost/sandboxmcp/python:latest", "localhost:5000/a",
		"a/b/c/d:e", "[::1]:5000/a", "a@sha256:" + strings.Repeat("0a", 32), "a:b@sha256:" + strings.Repeat("0a", 32),
		"sha256:" + strings.Repeat("0a", 32), strings.Repeat("0a", 32), // engines' image ids
	} {
		if err := CheckImage(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", " ", "A", "a b", "a:", ":a", "a:b:c", "-a", "a/", "/a", "a//b", "../a", "a@b", "a@sha256:00", "a\n", "a\x00", "a;b", "$(a)",
		"unix:///a", "ä",
		"a:" + strings.Repeat("t", 129), strings.Repeat("a", 256), "a:-t",
	} {
		if err := CheckImage(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestSplitGPUs(t *testing.T) {
	for text, want := range map[string][]string{"all": {"all"}, "none": {}, "0": {"0"}, "3, 12": {"3", "12"}, "": {""}, "0,": {"0", ""}} {
		if got := SplitGPUs(text); got == nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestWordsForNothing reads the words that Origins prints for detected and absent values.
func TestWordsForNothing(t *testing.T) {
	_, env := writeConfig(t, "containers: {podman: auto, docker: auto, binary: auto, gpus: none}\n")
	c, err := Load(Options{Env: env})
	if k := c.Containers; err != nil || k.Podman != "" || k.Docker != "" || k.Binary != "" || len(k.GPUs) > 0 {
		t.Errorf("got %+v, %v", k, err)
	}
	for text, want := range map[string][]string{"gpus: 1": {"1"}, "gpus: all": {"all"}, "gpus: ['0', '2']": {"0", "2"}} {
		_, env := writeConfig(t, "containers: {"+text+"}\n")
		if c, err := Load(Options{Env: env}); err != nil || !slices.Equal(c.Containers.GPUs, want) {
			t.Errorf("%s: got %v, %v", text, c.Containers.GPUs, err)
		}
	}
}

// TestImageVariable sets an invalid image in the environment, and a variable of an unknown language.
func TestImageVariable(t *testing.T) {
	_, err := Load(Options{Env: []string{"HOME=/h", "SANDBOXMCP_IMAGE_PYTHON=Py thon", "SANDBOXMCP_IMAGE_PYTHN=python"}})
	var bad *Error
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "environment SANDBOXMCP_IMAGE_PYTHON: images.python: ") ||
		!strings.Contains(err.Error(), "environment SANDBOXMCP_IMAGE_PYTHN: unknown variable (did you mean SANDBOXMCP_IMAGE_PYTHON?)") {
		t.Errorf("got %v", err)
	}
}

func TestLanguagesHaveImages(t *testing.T) {
	c, err := Load(Options{Env: []string{"HOME=/h"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range Languages() {
		if err := CheckImage(c.Images.ForLanguage(l)); err != nil {
			t.Errorf("%s: %v", l, err)
		}
	}
	if got := c.Images.ForLanguage("cobol"); got != "" {
		t.Errorf("got %q", got)
	}
}

// FuzzCheckImage checks that accepted references are printable, without blanks, and not an option.
func FuzzCheckImage(f *testing.F) {
	for _, seed := range []string{"python:3.12-slim", "a@sha256:" + strings.Repeat("0", 64), "[::1]:1/a", "-a", "a b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if CheckImage(text) != nil {
			return
		}
		if text == "" || text[0] == '-' || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("%q was taken", text)
		}
	})
}
