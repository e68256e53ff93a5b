package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// unpack returns the files of an archive.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if header.Mode != 0o444 || header.Typeflag != tar.TypeReg {
			t.Errorf("%s has mode %o and type %c", header.Name, header.Mode, header.Typeflag)
		}
		files[header.Name] = string(content)
	}
}

func archive(t *testing.T, language string) map[string]string {
	t.Helper()
	one, err := Archive(language)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Archive(language); !bytes.Equal(one, again) {
		t.Errorf("%s: the archive is another one each time", language)
	}
	return unpack(t, one)
}

// TestContainerfiles checks the common properties of all images.
func TestContainerfiles(t *testing.T) {
	bases := map[string]string{
		"python": "docker.io/library/python:3.12-slim", "node": "docker.io/library/node:22-slim",
		"shell": "docker.io/library/debian:stable-slim", "r": "docker.io/rocker/r-ver:4",
	}
	copied := regexp.MustCompile(`(?m)^COPY (\S+) `)
	for _, language := range backends.Languages {
		files := archive(t, language)
		text := files["Containerfile"]
		if !strings.Contains(text, "\nFROM "+bases[language]+"\n") || strings.Count(text, "\nFROM ") != 1 {
			t.Errorf("%s is not made from %s alone", language, bases[language])
		}
		users := regexp.MustCompile(`(?m)^USER (\S+)$`).FindAllStringSubmatch(text, -1)
		if len(users) == 0 || strings.HasPrefix(users[len(users)-1][1], "root") || strings.HasPrefix(users[len(users)-1][1], "0") {
			t.Errorf("%s ends as the user %v", language, users)
		}
		for _, c := range copied.FindAllStringSubmatch(text, -1) {
			if files[c[1]] == "" {
				t.Errorf("%s copies %s, which is not there", language, c[1])
			}
		}
		for _, word := range []string{"VOLUME", "ENTRYPOINT", "HEALTHCHECK", "ONBUILD", "ENV ", "ADD "} {
			if strings.Contains(text, "\n"+word) {
				t.Errorf("%s has %s, which means nothing in a sandbox", language, word)
			}
		}
	}
}

// TestPinned checks that each library has one version, and that the versions are compatible.
func TestPinned(t *testing.T) {
	seen := map[string]bool{}
	one := regexp.MustCompile(`^([A-Za-z0-9-]+)~=\d+(\.\d+){2}$`)
	for line := range strings.Lines(archive(t, "python")["requirements.txt"]) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		m := one.FindStringSubmatch(line)
		if m == nil || seen[strings.ToLower(m[1])] {
			t.Errorf("requirements.txt: %q", line)
			continue
		}
		seen[strings.ToLower(m[1])] = true
	}
	for _, name := range []string{"numpy", "pandas", "scipy", "matplotlib", "scikit-learn", "requests", "openpyxl", "pillow", "sympy"} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
	var node struct{ Dependencies map[string]string }
	if err := json.Unmarshal([]byte(archive(t, "node")["package.json"]), &node); err != nil {
		t.Fatal(err)
	}
	for name, version := range node.Dependencies {
		if !regexp.MustCompile(`^~\d+\.\d+\.\d+$`).MatchString(version) {
			t.Errorf("package.json: %s %s", name, version)
		}
	}
	for _, name := range []string{"typescript", "tsx"} {
		if node.Dependencies[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestNames(t *testing.T) {
	if got, want := Name("docker", "python"), "sandboxmcp/python:latest"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := Name("podman", "r"), "localhost/sandboxmcp/r:latest"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := Archive("cobol"); err == nil {
		t.Error("there is an image of cobol")
	}
}
