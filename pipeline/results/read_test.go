package results

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/signer"
)

func TestRead(t *testing.T) {
	s := openStore(t, Config{})
	weird := "a b/\xff\n\x1b.txt"
	mem, disk := small(newID()), large(newID())
	disk.Stderr = "\xff\xfe"
	disk.Artifacts = append(disk.Artifacts, save(t, s, disk.ID, weird, "hello, world"), save(t, s, disk.ID, "stdout", "not it"),
		save(t, s, disk.ID, "empty", ""), signer.Artifact{Name: "unsaved", Size: 3})
	mem.Artifacts = append(mem.Artifacts, signer.Artifact{Name: "unsaved", Size: 3})
	save(t, s, disk.ID, "unlisted", "not an artifact")
	must(t, s.Save(t.Context(), mem))
	must(t, s.Save(t.Context(), disk))
	const text, bytes = "text/plain; charset=utf-8", "application/octet-stream"
	for _, tt := range []struct {
		name           string
		id             string
		offset, length int64
		want           string
		size           int64
		mime, err      string
	}{
		{"stdout", mem.ID, 0, 0, "out \xff", 5, bytes, ""},
		{"stdout", mem.ID, 1, 2, "ut", 5, bytes, ""},
		{"stderr", mem.ID, 2, 1 << 62, "r", 3, text, ""},
		{"stderr", mem.ID, 1 << 62, 1 << 62, "", 3, text, ""},
		{"stderr", mem.ID, 3, 1, "", 3, text, ""},
		{"files/x", mem.ID, 0, 0, "", 0, "", "withheld: a secret is in it"},
		{"files/unsaved", mem.ID, 0, 0, "", 0, "", "not saved"},
		{"stdout", disk.ID, 5, 10, "5678901234", 100_000, text, ""},
		{"stdout", disk.ID, 99_998, 10, "89", 100_000, text, ""},
		{"stdout", disk.ID, 1 << 62, 10, "", 100_000, text, ""},
		{"stderr", disk.ID, 0, 0, "\xff\xfe", 2, bytes, ""},
		{"files/" + weird, disk.ID, 7, 0, "world", 12, "text/plain", ""},
		{"files/stdout", disk.ID, 0, 0, "not it", 6, "text/plain", ""},
		{"files/empty", disk.ID, 0, 0, "", 0, "text/plain", ""},
		{"files/x", disk.ID, 0, 0, "", 0, "", "withheld: a secret is in it"},
		{"files/unsaved", disk.ID, 0, 0, "", 0, "", "not saved"},
		{"files/unlisted", disk.ID, 0, 0, "", 0, "", "has no artifact with this name"},
		{"files/", disk.ID, 0, 0, "", 0, "", "has no artifact with this name"},
		{"files/../run.json", disk.ID, 0, 0, "", 0, "", "has no artifact with this name"},
		{"run.json", disk.ID, 0, 0, "", 0, "", "has no artifact with this name"},
		{"", disk.ID, 0, 0, "", 0, "", "has no artifact with this name"},
		{"stdout", disk.ID, -1, 0, "", 0, "", "negative"},
		{"stdout", mem.ID, 0, -1, "", 0, "", "negative"},
	} {
		got, err := s.Read(tt.id, tt.name, tt.offset, tt.length)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q %d+%d: got error %v, want %q", tt.name, tt.offset, tt.length, err, tt.err)
			}
			continue
		}
		if err != nil || string(got.Data) != tt.want || got.Size != tt.size || got.MIME != tt.mime {
			t.Errorf("%q %d+%d: got %q of %d bytes, %s, %v; want %q of %d, %s", tt.name, tt.offset, tt.length, got.Data, got.Size, got.MIME, err,
				tt.want, tt.size, tt.mime)
		}
	}
}

// A record may lie, and somebody may have put links into the store: no file outside is read.
func TestNoLinkIsFollowed(t *testing.T) {
	s := openStore(t, Config{})
	outside := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(outside, []byte("secret"), 0o600))
	r := large(newID())
	r.Artifacts = []signer.Artifact{save(t, s, r.ID, "good/a", "a")}
	for _, name := range []string{"link", "inner", "dir/secret", "directory", "../../../secret", "/etc/passwd", "a\x00b", "good/a/b", "."} {
		r.Artifacts = append(r.Artifacts, signer.Artifact{Name: name})
	}
	must(t, os.Symlink(outside, filepath.Join(s.ArtifactDir(r.ID), "link")))
	must(t, os.Symlink("good/a", filepath.Join(s.ArtifactDir(r.ID), "inner")))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(s.ArtifactDir(r.ID), "dir")))
	must(t, os.Mkdir(filepath.Join(s.ArtifactDir(r.ID), "directory"), 0o755))
	must(t, s.Save(t.Context(), r))
	for _, a := range r.Artifacts {
		p, err := s.Read(r.ID, "files/"+a.Name, 0, 0)
		if good := a.Name == "good/a"; good != (err == nil) {
			t.Errorf("%q: got %q, %v", a.Name, p.Data, err)
		}
		if err != nil && strings.Contains(err.Error(), s.c.Dir) {
			t.Errorf("the error tells where the store is: %v", err)
		}
	}
	must(t, os.Remove(filepath.Join(s.c.Dir, r.ID, "stdout")))
	must(t, os.Symlink(outside, filepath.Join(s.c.Dir, r.ID, "stdout")))
	if got, err := s.Get(r.ID); err == nil {
		t.Errorf("Get followed a link: %q", got.Stdout)
	}
	other := newID()
	must(t, os.Symlink(filepath.Join(s.c.Dir, r.ID), filepath.Join(s.c.Dir, other)))
	if _, err := s.Get(other); err == nil {
		t.Error("Get took a link for a run's directory")
	}
	if err := s.Save(t.Context(), large(other)); err == nil {
		t.Error("Put followed a link")
	}
}
