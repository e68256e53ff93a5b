package snapshot

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// source makes a directory with a hidden file, a link and names of all kinds.
func source(t *testing.T) (Source, string) {
	dir := t.TempDir()
	os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755)
	for _, name := range []string{"a/file", "a/b/hidden", "a/b/" + strings.Repeat("n", 255), "z"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text of "+name), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return Source{Dir: root, Hidden: map[string]bool{"a/b/hidden": true}, Disk: 1 << 20}, dir
}

// contents collects entries in a map, a directory as "/".
func contents(t *testing.T, into map[string]string) func(Entry) error {
	return func(e Entry) error {
		into[e.Name] = "to " + e.Target
		if e.Info.IsDir() {
			into[e.Name] = "/"
		} else if e.Open != nil {
			r, err := e.Open()
			if err != nil {
				return err
			}
			defer r.Close()
			text, err := io.ReadAll(r)
			if err != nil {
				t.Error(err)
			}
			into[e.Name] = string(text)
		}
		return nil
	}
}

// TestPack checks that an archive contains the entries of Read, and that Names finds the names missing from a copy of
// it.
func TestPack(t *testing.T) {
	s, dir := source(t)
	if runtime.GOOS != "windows" {
		os.WriteFile(filepath.Join(dir, "new\nline\xff"), nil, 0o600)
	}
	read, unpacked := map[string]string{}, map[string]string{}
	if _, err := s.Read(t.Context(), contents(t, read)); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	names, err := s.Pack(t.Context(), &archive)
	if err == nil {
		err = Unpack(&archive, contents(t, unpacked))
	}
	if diff := cmp.Diff(read, unpacked); err != nil || diff != "" {
		t.Errorf("got %v, read (-), unpacked (+):\n%s", err, diff)
	}
	if _, there := read["a/b/hidden"]; there || read["a/file"] != "text of a/file" || read["link"] != "to ../outside" || read["a/b/c"] != "/" {
		t.Errorf("read %v", read)
	}
	present := map[string]bool{}
	for name, text := range read {
		present[name] = text == "/"
	}
	for _, c := range []struct {
		gone, want []string
	}{
		{nil, nil}, {[]string{"z", "a/file"}, []string{"a/file", "z"}}, {[]string{"a", "a/file", "a/b", "a/b/c"}, []string{"a"}},
	} {
		left := map[string]bool{}
		for name, dir := range present {
			left[name] = dir
		}
		for _, name := range c.gone {
			delete(left, name)
		}
		if diff := cmp.Diff(c.want, names.Missing(left)); diff != "" {
			t.Errorf("without %q: %s", c.gone, diff)
		}
	}
	if !names.Has("a/file") || names.Has("a/b/hidden") || names.Has("a/nothing") || names.Has("nothing/x") {
		t.Error("the names are not those that were copied")
	}
}

// TestReadChanging reads files that change or disappear meanwhile, and a copy that is too large.
func TestReadChanging(t *testing.T) {
	s, dir := source(t)
	var archive bytes.Buffer
	got := map[string]string{}
	_, err := s.Read(t.Context(), func(e Entry) error {
		if e.Name == "a/file" {
			os.Rename(filepath.Join(dir, "a/file"), filepath.Join(dir, "a/b/old")) // without the rename, the inode number would be reused
			os.WriteFile(filepath.Join(dir, "a/other"), []byte("other"), 0o600)
			os.Rename(filepath.Join(dir, "a/other"), filepath.Join(dir, "a/file"))
		}
		return contents(t, got)(e)
	})
	if text := got["a/file"]; err != nil || text == "other" {
		t.Errorf("got %q, %v, of a file that was replaced", text, err)
	}
	s.Disk = 10
	if _, err := s.Pack(t.Context(), &archive); !errors.Is(err, ErrFull) {
		t.Errorf("got %v, want that it is full", err)
	}
}

// TestUnpackHostile unpacks archives that Pack would never write.
func TestUnpackHostile(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../out", Typeflag: tar.TypeReg}, {Name: "/abs", Typeflag: tar.TypeDir}, {Name: "", Typeflag: tar.TypeDir},
		{Name: "a/../../b", Typeflag: tar.TypeSymlink, Linkname: "x"},
		{Name: "device", Typeflag: tar.TypeChar}, {Name: "hard", Typeflag: tar.TypeLink, Linkname: "z"}, {Name: "fifo", Typeflag: tar.TypeFifo},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := errors.Join(w.WriteHeader(&h), w.Close()); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(&archive, func(e Entry) error { return nil }); err == nil {
			t.Errorf("%q of type %c was unpacked", h.Name, h.Typeflag)
		}
	}
}

// TestPackPrivate packs as root a directory of another user, with a file that only root may read.
func TestPackPrivate(t *testing.T) {
	s, dir := source(t)
	if os.Geteuid() != 0 {
		t.Skip("only root reads files of others")
	}
	filepath.WalkDir(dir, func(name string, _ os.DirEntry, _ error) error { return os.Lchown(name, 4711, 4711) })
	if err := errors.Join(os.Chown(filepath.Join(dir, "z"), 0, 0), os.Chown(filepath.Join(dir, "a/b"), 0, 0),
		os.Chmod(filepath.Join(dir, "a/b"), 0o700), os.Chown(filepath.Join(dir, "a/file"), 0, 4711)); err != nil {
		t.Fatal(err)
	}
	names, err := s.Pack(t.Context(), io.Discard)
	if err != nil || names.Has("z") || names.Has("a/b") || names.Has("a/b/c") || !names.Has("a/file") || !names.Has("link") {
		t.Errorf("got %v, %v, want all but z and a/b", names, err)
	}
}
