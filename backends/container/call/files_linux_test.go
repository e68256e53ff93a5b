package call

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

func contentOf(t testing.TB, f backends.File) string {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Errorf("open %q: %v", f.Name, err)
		return ""
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("read %q: %v", f.Name, err)
	}
	return string(text)
}

func TestFiles(t *testing.T) {
	before := time.Now().Add(-time.Second) // file systems have coarse clocks
	onBothConns(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
		f := s.Files()
		big := strings.Repeat("0123456789abcde\n", 300_000)
		for name, text := range map[string]string{"\xff\xfe\n": "bytes", "empty": "", "big": big} {
			if err := f.Put(name, 0o640, strings.NewReader(text)); err != nil {
				t.Fatalf("put %q: %v", name, err)
			}
		}
		if err := f.Put("../out", 0o644, strings.NewReader(big)); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("put ../out: %v", err)
		}
		if err := f.Put("part", 0o644, io.MultiReader(strings.NewReader("x"), badReader{})); err == nil ||
			!strings.Contains(err.Error(), "this writer left") {
			t.Errorf("a reader that fails: %v", err)
		}
		if err := f.Put("part", 0o644, io.MultiReader(strings.NewReader("x"), closedReader{})); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a reader that is a closed pipe: %v", err)
		}
		runShell(t, s, "rm part; mkfifo fifo", backends.Streams{})
		var written []backends.File
		skipped, err := f.Each(t.Context(), func(f backends.File) error {
			written = append(written, f)
			if f.Name == "\xff\xfe\n" && contentOf(t, f) != "bytes" {
				t.Error("not its content, while the walk goes on")
			}
			return nil
		})
		if err != nil || skipped != 1 || len(written) != 3 {
			t.Fatalf("%d files, %d skipped, %v", len(written), skipped, err)
		}
		for _, f := range written {
			if f.Mode != 0o640 || f.Changed.Before(before) {
				t.Errorf("got %+v", f)
			}
			if f.Name == "big" && (contentOf(t, f) != big || f.Size != int64(len(big))) {
				t.Error("not its content")
			}
		}
		r, err := written[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		r.Read(make([]byte, 1))
		r.Close()
		enough, n := errors.New("enough"), 0
		if _, err := f.Each(t.Context(), func(backends.File) error { n++; return enough }); err != enough || n != 1 {
			t.Errorf("got %v after %d", err, n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := f.Each(ctx, func(backends.File) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was cancelled", err)
		}
		runShell(t, s, "rm empty; mv big moved; cp moved big; echo more >>$'\\xff\\xfe\\n'", backends.Streams{})
		for _, f := range written {
			switch r, err := f.Open(); {
			case f.Name == "empty":
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("got %v, want that it is gone", err)
				}
			case f.Name == "big":
				if err == nil {
					t.Error("a file was opened that has replaced another")
				}
			case err != nil:
				t.Error(err)
			default:
				if text, err := io.ReadAll(r); string(text) != "bytesmore\n" || err != nil {
					t.Errorf("a file that has grown: %q %v", text, err)
				}
				r.Close()
			}
		}
		s.Close()
		if _, err := written[0].Open(); err == nil {
			t.Error("a file outlived its sandbox")
		}
	})
}

type closedReader struct{}

func (closedReader) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
