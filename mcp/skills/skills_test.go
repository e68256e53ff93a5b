package skills

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeFiles creates a directory with files.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func skill(name, rest string) string {
	return "---\nname: " + name + "\ndescription: Does it.\n---\n" + rest
}

func TestSkills(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"pdf/SKILL.md": "\ufeff---\r\nname: pdf\r\ndescription: >\r\n  Reads\r\n  PDFs.\r\nlicense: MIT\r\nmetadata: {a: " +
			"b}\r\n---\r\n\r\n# How\r\nSee [x](reference/x.md).\r\n",
		"pdf/reference/x.md":   "more",
		"pdf/.hidden":          "no",
		"pdf/.git/config":      "no",
		"a-1/SKILL.md":         "---\nname: a-1\ndescription: d\n---",
		"no-skill/README.md":   "x",
		"file":                 "x",
		"other-name/SKILL.md":  skill("another", ""),
		"upper/SKILL.md":       skill("Upper", ""),
		"no-front/SKILL.md":    "# hello",
		"no-end/SKILL.md":      "---\nname: no-end\ndescription: d\n",
		"not-yaml/SKILL.md":    "---\nname: [\n---\n",
		"no-about/SKILL.md":    "---\nname: no-about\n---\n",
		"long-about/SKILL.md":  "---\nname: long-about\ndescription: " + strings.Repeat("x", 1025) + "\n---\n",
		"large/SKILL.md":       skill("large", strings.Repeat("x", maxBody)),
		"bytes/SKILL.md":       skill("bytes", "\xff"),
		"directory/SKILL.md/a": "x",
		"a--b/SKILL.md":        skill("a--b", ""),
	})
	secret := filepath.Join(writeFiles(t, map[string]string{"secret": skill("link", "secret")}), "secret")
	for link, to := range map[string]string{"pdf/out": secret, "pdf/in": "reference/x.md", "pdf/up": "../file"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(filepath.Join(dir, "link"), 0o755)
	if err := os.Symlink(secret, filepath.Join(dir, "link", Main)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	d, err := Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	names := func() (names []string) {
		t.Helper()
		all, err := d.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			names = append(names, s.Name+": "+s.Description)
		}
		return names
	}
	if got := names(); !slices.Equal(got, []string{"a-1: d", "pdf: Reads PDFs.\n"}) {
		t.Errorf("listed %q", got)
	}
	for _, bad := range []string{"other-name", "upper", "no-front", "no-end", "not-yaml", "no-about", "long-about", "large", "bytes",
		"directory", "a--b", "link"} {
		if strings.Count(log.String(), "skill="+bad+" ") != 1 {
			t.Errorf("%s is not named once in the log", bad)
		}
	}
	if strings.Contains(log.String(), "no-skill") || strings.Contains(log.String(), "secret=") {
		t.Errorf("the log has %s", &log)
	}
	before := log.Len()
	names()
	if log.Len() != before {
		t.Errorf("what is wrong was named again: %s", log.String()[before:])
	}
	if s, err := d.Get("pdf"); err != nil || s.Body != "# How\nSee [x](reference/x.md)." {
		t.Errorf("got %q %v", s.Body, err)
	}
	if files, err := d.Files("pdf"); err != nil || len(files) != 1 || files[0] != (File{"reference/x.md", 4}) {
		t.Errorf("files %v %v", files, err)
	}
	if text, err := d.Read("pdf", "in"); err != nil || string(text) != "more" {
		t.Errorf("a link inside: %q %v", text, err)
	}
	for _, c := range [][2]string{{"pdf", "out"}, {"pdf", "../file"}, {"pdf", "/etc/passwd"}, {"pdf", "."}, {"pdf", ""}, {"pdf", ".hidden"},
		{"pdf", ".git/config"},
		{"pdf", "reference"}, {"pdf", "none"}, {"pdf/reference", "x.md"}, {"..", "x"}, {"", "file"}, {"link", Main}, {"no-skill", "README.md"},
		{"upper", Main}} {
		if text, err := d.Read(c[0], c[1]); err == nil {
			t.Errorf("%q was read: %s", c, text)
		}
	}
	// List sees changes.
	if err := os.WriteFile(filepath.Join(dir, "upper", Main), []byte(skill("upper", "")), 0o644); err != nil {
		t.Fatal(err)
	}
	os.RemoveAll(filepath.Join(dir, "a-1"))
	if got := names(); len(got) != 2 || got[1] != "upper: Does it." {
		t.Errorf("after a change, listed %q", got)
	}
	if _, err := Open(filepath.Join(dir, "nowhere"), nil); err == nil {
		t.Error("a directory that is not there was opened")
	}
}
