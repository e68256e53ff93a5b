package signer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends/hostfs"
)

const secret = "hunter2-hunter2"

// sourceOf returns a Source of fixed files.
func sourceOf(files ...File) Source {
	return func(_ context.Context, f func(File) error) (int, error) {
		for _, file := range files {
			if err := f(file); err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
}

func file(name, content string) File {
	return reading(name, int64(len(content)), func() io.Reader { return strings.NewReader(content) })
}

func reading(name string, size int64, r func() io.Reader) File {
	return File{Name: name, Size: size, Mode: 0o644, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(r()), nil
	}}
}

// directoryAt returns an Options.Dir that makes dir.
func directoryAt(t testing.TB, dir string) func() (*os.Root, error) {
	return func() (*os.Root, error) {
		root, err := hostfs.MakeDir(dir)
		if err == nil {
			t.Cleanup(func() { root.Close() })
		}
		return root, err
	}
}

func saveReceipt(t *testing.T, dir string, e Envelope) error {
	t.Helper()
	root, err := directoryAt(t, dir)()
	if err != nil {
		t.Fatal(err)
	}
	d := newDirectory(root, "")
	if err := d.stageReceipt(e); err != nil {
		return err
	}
	return d.save()
}

func collect(t *testing.T, src Source, o Options) Manifest {
	t.Helper()
	m, err := Collect(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func containsSecret(r io.Reader) (bool, error) {
	b, err := io.ReadAll(r)
	return bytes.Contains(b, []byte(secret)), err
}

func redact(s string) string { return strings.ReplaceAll(s, secret, "***REDACTED***") }

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// tree returns every name below dir, with the contents of regular files.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		if !d.Type().IsRegular() {
			got[name] = d.Type().String()
			return nil
		}
		b, err := os.ReadFile(path)
		got[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantTree(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
		t.Errorf("directory differs from what was wanted (-want +got):\n%s", diff)
	}
}

func TestCollect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "when missing")
	png := "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
	m := collect(t, sourceOf(file("z.txt", "last"), file("sub/a.png", png), file("A", "")), Options{Dir: directoryAt(t, dir)})
	want := Manifest{Artifacts: []Artifact{
		{Name: "A", Size: 0, SHA256: sum(""), MIME: "text/plain"},
		{Name: "sub/a.png", Size: int64(len(png)), SHA256: sum(png), MIME: "image/png"},
		{Name: "z.txt", Size: 4, SHA256: sum("last"), MIME: "text/plain; charset=utf-8"},
	}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
	wantTree(t, dir, map[string]string{
		"A": "", "sub/a.png": png, "z.txt": "last",
		"SHA256SUMS": sum("") + "  A\n" + sum(png) + "  sub/a.png\n" + sum("last") + "  z.txt\n",
	})
}

func TestSavedIsWhatWasHashed(t *testing.T) {
	dir := t.TempDir()
	big := strings.Repeat("0123456789abcdef", 200_000) // larger than spoolMemory
	src := sourceOf(file("big", big), file("small", "x"), file("big2", big))
	for name, o := range map[string]Options{
		"straight": {Dir: directoryAt(t, dir)},
		"held":     {Dir: directoryAt(t, dir), ContainsSecret: containsSecret},
	} {
		t.Run(name, func(t *testing.T) {
			m := collect(t, src, o)
			got := tree(t, dir)
			if got["big"] != big || got["big2"] != big || got["small"] != "x" || len(got) != 4 {
				t.Error("a saved file differs from its source")
			}
			if m.Artifacts[0].SHA256 != sum(big) {
				t.Error("wrong hash of a large file")
			}
		})
	}
}

func TestWithoutDirNothingIsSaved(t *testing.T) {
	t.Chdir(t.TempDir())
	m := collect(t, sourceOf(file("SHA256SUMS", "x"), file("secret", secret)), Options{ContainsSecret: containsSecret})
	if m.Artifacts[0].Withheld != "" || m.Artifacts[1].Withheld == "" {
		t.Errorf("got %+v", m.Artifacts)
	}
	wantTree(t, ".", map[string]string{})
}

// TestBadNamesAreWithheld: a run may return paths as names; they are listed, and no file is written anywhere.
func TestBadNamesAreWithheld(t *testing.T) {
	for _, name := range []string{
		"", ".", "..", "../x", "a/../../x", "a/../b", "a/..", "/etc/x", "//x", "a//b", "a/", "./a", "a/./b",
		"a\x00b", "\x00", "SHA256SUMS", "sha256sums",
	} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			top := t.TempDir()
			m := collect(t, sourceOf(file(name, "evil")), Options{Dir: directoryAt(t, filepath.Join(top, "dir"))})
			if len(m.Artifacts) != 1 || m.Artifacts[0].Withheld == "" || m.Artifacts[0].SHA256 != sum("evil") {
				t.Errorf("got %+v, want one withheld artifact", m)
			}
			wantTree(t, top, map[string]string{})
		})
	}
}

func TestWindowsNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a/b.txt": true, "ä": true,
		"a:b": false, "a.": false, "a /b": false, `a\b`: false, "a\nb": false, "a?": false,
	} {
		if got := isWindowsName(name); got != want {
			t.Errorf("windowsName(%q): got %v, want %v", name, got, want)
		}
	}
}

func TestTooLongNamesAreDropped(t *testing.T) {
	long := strings.Repeat("a/", 2048) + "b"
	deep := strings.Repeat("a/", maxDepth+1) + "b"
	fits := strings.Repeat("a/", maxDepth) + "b"
	m := collect(t, sourceOf(file(long, "x"), file(deep, "x"), file(fits, "x")), Options{Dir: directoryAt(t, t.TempDir())})
	if len(m.Artifacts) != 1 || m.Artifacts[0].Name != fits || m.Dropped != 2 {
		t.Errorf("got %d artifacts, %d dropped, want 1 and 2", len(m.Artifacts), m.Dropped)
	}
}

func TestUnchangedInputs(t *testing.T) {
	dir := t.TempDir()
	inputs := map[string]string{"same": sum("1"), "changed": sum("2"), "gone": sum("3"), "gone bad": sum("4")}
	bad := file("gone bad", "")
	bad.Open = func() (io.ReadCloser, error) { return nil, fs.ErrPermission }
	src := sourceOf(file("same", "1"), file("changed", "new"), file("new", "1"), bad)
	m := collect(t, src, Options{Dir: directoryAt(t, dir), Unchanged: inputs})
	if len(m.Artifacts) != 2 || m.Artifacts[0].Name != "changed" || m.Artifacts[1].Name != "new" || m.Skipped != 1 {
		t.Errorf("got %+v", m)
	}
	if got := tree(t, dir); got["changed"] != "new" || len(got) != 3 {
		t.Errorf("got %q", got)
	}
}

func TestUnreadableFilesArePassedOver(t *testing.T) {
	for name, find := range map[string]func(io.Reader) (bool, error){"straight": nil, "held": containsSecret} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			replaced := file("b", "")
			replaced.Open = func() (io.ReadCloser, error) { return nil, errors.New("replaced\n" + secret) }
			breaks := reading("c", 10, func() io.Reader {
				return io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(&fs.PathError{Op: "read", Path: "/host/path",
					Err: fs.ErrPermission}))
			})
			src := sourceOf(file("a", "1"), breaks, replaced, file("d", "2"))
			m := collect(t, src, Options{Dir: directoryAt(t, dir), ContainsSecret: find, Redact: redact})
			if len(m.Artifacts) != 2 || m.Skipped != 2 {
				t.Errorf("got %+v", m)
			}
			if want := `could not be read: 2 (first: "permission denied")`; m.Why != want {
				t.Errorf("got %s, want %s", m.Why, want)
			}
			m = collect(t, sourceOf(replaced), Options{Redact: redact})
			if want := `could not be read: 1 (first: "replaced\n***REDACTED***")`; m.Why != want {
				t.Errorf("got %s, want %s", m.Why, want)
			}
			if got := tree(t, dir); len(got) != 3 {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestNamedTwice(t *testing.T) {
	dir := t.TempDir()
	m := collect(t, sourceOf(file("a", "1"), file("a", "2")), Options{Dir: directoryAt(t, dir)})
	if len(m.Artifacts) != 1 || m.Skipped != 1 || tree(t, dir)["a"] != "1" {
		t.Errorf("got %+v", m)
	}
}

func TestCancel(t *testing.T) {
	for name, o := range map[string]Options{
		"straight": {},
		"held":     {ContainsSecret: containsSecret},
		"input":    {Unchanged: map[string]string{"big": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			reads := 0
			endless := readerFunc(func(p []byte) (int, error) {
				if reads++; reads == 20 {
					cancel()
				}
				return len(p), nil
			})
			dir := t.TempDir()
			o.Dir, o.MaxBytes = directoryAt(t, dir), 1<<40
			src := sourceOf(file("a", "1"), reading("big", 1, func() io.Reader { return endless }), file("z", "2"))
			m, err := Collect(ctx, src, o)
			if !errors.Is(err, context.Canceled) || len(m.Artifacts) != 1 {
				t.Errorf("got %+v, %v", m, err)
			}
			if reads != 20 {
				t.Errorf("%d reads after the end of ctx", reads-20)
			}
			wantTree(t, dir, map[string]string{"a": "1"})
		})
	}
}

// TestCancelWhileSaving ends ctx once the copy of the searched file has begun: it must not continue.
func TestCancelWhileSaving(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	var watch sync.WaitGroup
	watch.Go(func() {
		for ctx.Err() == nil {
			if entries, _ := os.ReadDir(dir); len(entries) > 0 {
				cancel()
			}
		}
	})
	src := sourceOf(file("big", strings.Repeat("x", 128<<20)))
	m, err := Collect(ctx, src, Options{Dir: directoryAt(t, dir), ContainsSecret: func(io.Reader) (bool, error) { return false, nil }})
	cancel()
	watch.Wait()
	if !errors.Is(err, context.Canceled) || len(m.Artifacts) != 0 {
		t.Errorf("got %+v, %v", m, err)
	}
	if got := tree(t, dir); len(got) != 0 {
		t.Errorf("%d files were saved", len(got))
	}
}

func TestCancelBetweenFiles(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opened := false
	f := file("a", "1")
	f.Open = func() (io.ReadCloser, error) { opened = true; return nil, fs.ErrInvalid }
	for name, src := range map[string]Source{"some": sourceOf(f), "none": sourceOf()} {
		if _, err := Collect(ctx, src, Options{}); !errors.Is(err, context.Canceled) || opened {
			t.Errorf("%s: got %v, opened %v", name, err, opened)
		}
	}
}

func TestSourceFails(t *testing.T) {
	dir := t.TempDir()
	src := func(_ context.Context, f func(File) error) (int, error) {
		return 3, errors.Join(f(file("a", "1")), fs.ErrClosed)
	}
	m, err := Collect(t.Context(), src, Options{Dir: directoryAt(t, dir)})
	if !errors.Is(err, fs.ErrClosed) || len(m.Artifacts) != 1 || m.Skipped != 3 {
		t.Errorf("got %+v, %v", m, err)
	}
	wantTree(t, dir, map[string]string{"a": "1"})
}

// TestCollectReadsSmallThingsInSmallPieces: a run that leaves only its script costs no more than reading that.
func TestCollectReadsSmallThingsInSmallPieces(t *testing.T) {
	script := "echo 1"
	largest := 0
	src := sourceOf(File{Name: "script.sh", Size: int64(len(script)), Open: func() (io.ReadCloser, error) {
		r := strings.NewReader(script)
		return io.NopCloser(readerFunc(func(p []byte) (int, error) {
			largest = max(largest, len(p))
			return r.Read(p)
		})), nil
	}})
	sum := sha256.Sum256([]byte(script))
	m := collect(t, src, Options{Unchanged: map[string]string{"script.sh": hex.EncodeToString(sum[:])}})
	if len(m.Artifacts) != 0 || largest == 0 || largest > 4096 {
		t.Errorf("%v, read in pieces of %d bytes", m.Artifacts, largest)
	}
}
