package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	before := time.Now().Add(-time.Second) // a file system's clock is coarse
	onBoth(t, backends.Spec{}, func(t *testing.T, s backends.Sandbox) {
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
		if err := f.Put("part", 0o644, io.MultiReader(strings.NewReader("x"), badReader{})); err == nil || !strings.Contains(err.Error(), "this writer left") {
			t.Errorf("a reader that fails: %v", err)
		}
		sh(t, s, "rm part; mkfifo fifo", backends.Streams{})
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
		sh(t, s, "rm empty", backends.Streams{})
		for _, f := range written {
			if f.Name == "empty" {
				if _, err := f.Open(); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("got %v, want that it is gone", err)
				}
			}
		}
		s.Close()
		if _, err := written[0].Open(); err == nil {
			t.Error("a file outlived its sandbox")
		}
	})
}

// many is a workspace with more files than an init remembers; one of them changes.
type many struct{ again bool }

func (*many) Put(string, uint32, io.Reader) error { return fs.ErrPermission }

func (m *many) Each(ctx context.Context, do func(backends.File) error) (int, error) {
	for i := range maxListingSize/fileCost + 2*maxUnacknowledged {
		f := backends.File{Name: fmt.Sprint("d/", i), Changed: time.Unix(1, int64(i)), Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(fmt.Sprint(i))), nil
		}}
		if i == 1 && m.again {
			f.Size++
		}
		if err := do(f); err != nil {
			return 0, err
		}
	}
	m.again = true
	return 0, ctx.Err()
}

type crowded struct {
	backends.Sandbox
	many *many
}

func (c crowded) Files() backends.Files { return c.many }

// TestForgotten opens files of which the init knows no more, and not one that looks different by then.
func TestForgotten(t *testing.T) {
	for _, kind := range connKinds {
		s, err := start(t.Context(), t, kind, backends.Spec{}, func(ctx context.Context, spec backends.Spec) (backends.Sandbox, error) {
			s, err := bareStart(t)(ctx, spec)
			return crowded{s, &many{}}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var files []backends.File
		if _, err := s.Files().Each(t.Context(), func(f backends.File) error {
			if files = append(files, f); len(files)%1000 == 0 && "d/"+contentOf(t, f) != f.Name {
				t.Errorf("not the content of %s", f.Name)
			}
			return nil
		}); err != nil || len(files) != maxListingSize/fileCost+2*maxUnacknowledged {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, i := range []int{0, 2, 1000, len(files) - 1} {
			if got := contentOf(t, files[i]); got != fmt.Sprint(i) {
				t.Errorf("got %q, want %d", got, i)
			}
		}
		if _, err := files[1].Open(); err == nil || errors.Is(err, ErrLost) {
			t.Errorf("a file that was changed: %v", err)
		}
	}
}

func TestListingIsBounded(t *testing.T) {
	var l listing
	for i := range 200_000 {
		l.add(backends.File{Name: strings.Repeat("n", i%5000)})
	}
	if len(l.known) > maxListingSize/fileCost || l.cost > maxListingSize {
		t.Errorf("%d files are remembered, at a cost of %d", len(l.known), l.cost)
	}
	if _, ok := l.get(200_000); !ok {
		t.Error("the last one is not")
	}
}

// TestChunks reads from what gives a byte at a time, with deadlines in between.
func TestChunks(t *testing.T) {
	var wire bytes.Buffer
	c := newChunkWriter(&stutter{w: &wire}, 10)
	text := strings.Repeat("some content ", 20)
	for remaining := text; remaining != ""; {
		n, _ := c.Write([]byte(remaining))
		remaining = remaining[n:]
	}
	for c.end() != nil {
	}
	u := &chunkReader{from: &stutter{r: &wire}}
	var got []byte
	for b := make([]byte, 7); ; {
		n, err := u.Read(b)
		got = append(got, b[:n]...)
		if err == io.EOF {
			break
		} else if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if string(got) != text {
		t.Errorf("got %q", got)
	}
}

// stutter moves one byte and then has no time.
type stutter struct {
	w   io.Writer
	r   io.Reader
	odd bool
}

func (s *stutter) Write(p []byte) (int, error) {
	if s.odd = !s.odd; s.odd {
		return 0, os.ErrDeadlineExceeded
	}
	return s.w.Write(p[:min(3, len(p))])
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.odd = !s.odd; s.odd {
		return 0, os.ErrDeadlineExceeded
	}
	return s.r.Read(p[:1])
}
