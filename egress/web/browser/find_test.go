package browser

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// place writes an executable file.
func place(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	real := place(t, filepath.Join(dir, "opt/chrome"), "\x7fELF and more")
	script := place(t, filepath.Join(dir, "opt/google-chrome"), "#!/bin/sh\nexec \"$HERE/chrome\"")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(script, link); err != nil {
		t.Fatal(err)
	}
	notExecutable := filepath.Join(dir, "plain")
	if err := os.WriteFile(notExecutable, []byte("\x7fELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		real:   real,
		script: real,
		link:   real,
		place(t, filepath.Join(dir, "snap"), "#!/bin/sh\nexec /snap/bin/chromium \"$@\""): "comes from a snap",
		place(t, filepath.Join(dir, "other"), "#!/bin/sh\nexec true"):                     "is a script",
		notExecutable:              "not a program",
		filepath.Join(dir, "none"): "is not there",
		"chromium":                 "not an absolute path",
		dir:                        "not a program",
	} {
		p, err := FindProgram(path)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && p.Path != want {
			t.Errorf("%s: %+v, %v, want %s", path, p, err, want)
		}
		if err == nil && (len(p.Dirs) != 1 || p.Dirs[0] != filepath.Dir(real)) {
			t.Errorf("%s: directories %v", path, p.Dirs)
		}
	}
	t.Setenv("PATH", dir)
	if _, err := inPath(); !errors.Is(err, errMissing) {
		t.Errorf("%v", err)
	}
	place(t, filepath.Join(dir, "chromium-browser"), "#!/bin/sh\nexec /snap/bin/chromium")
	if _, err := inPath(); err == nil || !strings.Contains(err.Error(), "snap") {
		t.Errorf("%v", err)
	}
	place(t, filepath.Join(dir, "brave-browser"), "\x7fELF")
	if p, err := inPath(); err != nil || filepath.Base(p.Path) != "brave-browser" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := FindProgram("/bin/sh"); err != nil || p.Dirs != nil {
		t.Errorf("%+v, %v", p, err)
	}
}
