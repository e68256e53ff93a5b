package client

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func tarOf(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			h.Size = 1
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarFile(name string, mode int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}
}

func saveTar(t *testing.T, dir string, content []byte, most int64) (*download, error) {
	t.Helper()
	s := &download{most: most, sum: sha256.New()}
	return s, s.save(bytes.NewReader(content), true, dir, "got")
}

// listFiles lists the files in a directory and beside it.
func listFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, name); rel != "." && rel != "in" {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestHostileTars checks that a hostile tar writes nothing outside of its directory, and that nothing of it stays.
func TestHostileTars(t *testing.T) {
	link := func(kind byte, name, target string) tar.Header {
		return tar.Header{Typeflag: kind, Name: name, Linkname: target}
	}
	large := tarFile("large", 0o644)
	large.Size = 2 << 20
	whole := tarOf(t, tarFile("a", 0o644), tarFile("b", 0o644))
	for name, content := range map[string][]byte{
		"dots":                tarOf(t, tarFile("a", 0o644), tarFile("../out", 0o644)),
		"dots inside":         tarOf(t, tarFile("a/../../out", 0o644)),
		"absolute":            tarOf(t, tarFile(filepath.ToSlash(filepath.Join(t.TempDir(), "out")), 0o644)),
		"a link outwards":     tarOf(t, link(tar.TypeSymlink, "l", "../out")),
		"an absolute link":    tarOf(t, link(tar.TypeSymlink, "l", "/etc/passwd")),
		"a link in two steps": tarOf(t, link(tar.TypeSymlink, "d/l", "../x/../../out")),
		"an empty link":       tarOf(t, link(tar.TypeSymlink, "l", "")),
		"through a link": tarOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755}, link(tar.TypeSymlink, "l", "d"),
			tarFile("l/x", 0o644)),
		"a link twice":        tarOf(t, link(tar.TypeSymlink, "l", "a"), link(tar.TypeSymlink, "l", "b")),
		"a hard link":         tarOf(t, tarFile("a", 0o644), link(tar.TypeLink, "l", "a")),
		"a hard link out":     tarOf(t, link(tar.TypeLink, "l", "/etc/passwd")),
		"a device":            tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "null", Mode: 0o666, Devmajor: 1, Devminor: 3}),
		"a pipe":              tarOf(t, tar.Header{Typeflag: tar.TypeFifo, Name: "p", Mode: 0o666}),
		"a name twice":        tarOf(t, tarFile("a", 0o644), tarFile("./a", 0o644)),
		"a file as directory": tarOf(t, tarFile("a", 0o644), tarFile("a/b", 0o644)),
		"much":                tarOf(t, large),
		"much in many":        tarOf(t, tarFile("a", 0o644), tarFile("b", 0o644), large),
		"cut in a file":       whole[:512],
		"cut in a header":     whole[:1100],
		"no tar":              []byte(strings.Repeat("no tar ", 200)),
	} {
		dir := filepath.Join(t.TempDir(), "in")
		if s, err := saveTar(t, dir, content, 1<<20); err == nil {
			t.Errorf("%s: saved as %s", name, s.path)
		}
		if names := listFiles(t, filepath.Dir(dir)); len(names) > 0 {
			t.Errorf("%s left %q", name, names)
		}
	}
}

// TestManyNames checks that the number of entries without content is bounded, too.
func TestManyNames(t *testing.T) {
	one := tarOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o755})[:512]
	s := &download{most: 1, sum: sha256.New()}
	dir := t.TempDir()
	err := s.save(bytes.NewReader(bytes.Repeat(one, 40_000)), true, dir, "got")
	if err == nil || !strings.Contains(err.Error(), "more than 0 MB") || len(listFiles(t, dir)) > 0 {
		t.Errorf("%v, %q", err, listFiles(t, dir))
	}
}

// TestSaved checks that saved files are complete, replace nothing, and give no rights to others.
func TestSaved(t *testing.T) {
	dir := t.TempDir()
	content := tarOf(t, tarFile("s", 0o6755), tarFile("d/plain", 0o600), tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "d/plain"},
		tarFile("\x1b[31mred", 0o644))
	s, err := saveTar(t, dir, content, 1<<20)
	if err != nil || s.files != 3 || s.bytes != 3 {
		t.Fatalf("%d files, %d bytes, %v", s.files, s.bytes, err)
	}
	if info, err := os.Stat(filepath.Join(s.path, "s")); err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(filepath.Join(s.path, "l")); err != nil || string(text) != "x" {
		t.Errorf("through the link: %q %v", text, err)
	}
	before := listFiles(t, dir)
	if _, err := saveTar(t, dir, content, 1<<20); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a second time: %v", err)
	}
	for base, ok := range map[string]bool{"..": false, "": false, "/": true} {
		s := &download{most: 10, sum: sha256.New()}
		if err := s.save(strings.NewReader("x"), false, filepath.Join(dir, "other"), base); (err == nil) != ok {
			t.Errorf("as %q: %v, %s", base, err, s.path)
		}
		os.RemoveAll(filepath.Join(dir, "other"))
	}
	if after := listFiles(t, dir); len(after) != len(before) {
		t.Errorf("got %q, want %q", after, before)
	}
}

// TestPacked checks that a directory is packed with its content, without the targets of links that leave it.
func TestPacked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "src")
	for name, text := range map[string]string{"a": "1", "d/b": "22"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"in": "d/b", "d/up": "../a", "out": "/etc/passwd", "d/far": "../../x", "whole": "."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	var b bytes.Buffer
	k := &upload{sum: sha256.New()}
	if err := k.pack(t.Context(), &b, dir); err != nil {
		t.Fatal(err)
	}
	var names []string
	for in := tar.NewReader(&b); ; {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name+h.Linkname)
	}
	if got, want := strings.Join(names, " "), "src/ src/a src/d/ src/d/b src/d/up../a src/ind/b src/whole."; got != want || k.leftOut != 2 {
		t.Errorf("got %q and %d left out, want %q and 2", got, k.leftOut, want)
	}
	// A file that shrinks during the read is an error; it is not padded.
	name := filepath.Join(dir, "a")
	if err := os.Truncate(name, 1<<20); err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		k := &upload{sum: sha256.New()}
		err := k.pack(t.Context(), in, dir)
		in.CloseWithError(err)
		packed <- err
	}()
	r := tar.NewReader(out)
	for h, err := r.Next(); err == nil && h.Name != "src/a"; h, err = r.Next() {
	}
	if err := os.Truncate(name, 10); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, out)
	if err := <-packed; err == nil || !strings.Contains(err.Error(), "shrank") {
		t.Errorf("a file that shrank: %v", err)
	}
}
