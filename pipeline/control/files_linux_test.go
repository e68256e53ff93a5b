package control

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
	"github.com/sandboxmcp/sandboxmcp/pipeline"
)

// tarOf returns a tar of files of so many bytes each.
func tarOf(files int, size int64) io.Reader {
	out, in := io.Pipe()
	go func() {
		w := tar.NewWriter(in)
		for n := range files {
			h := &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("d%d/f%d", n%100, n), Mode: 0o644, Size: size}
			if w.WriteHeader(h) != nil {
				return
			}
			for left := size; left > 0; {
				part := min(left, 64<<10)
				if _, err := w.Write(block[:part]); err != nil {
					return
				}
				left -= part
			}
		}
		in.CloseWithError(w.Close())
	}()
	return out
}

var block = bytes.Repeat([]byte("0123456789abcdef"), 4<<10)

// entries returns how much is in a tar.
func entries(content io.Reader) (files int, size int64, err error) {
	for in := tar.NewReader(content); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, content)
			return files, size, err
		}
		if err != nil {
			return files, size, err
		}
		n, err := io.Copy(io.Discard, in)
		if err != nil {
			return files, size, err
		}
		if h.Typeflag == tar.TypeReg {
			files, size = files+1, size+n
		}
	}
}

// heap runs f, and returns by how many bytes more the heap was in use meanwhile.
func heap(f func()) int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before := int64(m.HeapInuse)
	var most atomic.Int64
	end := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-end:
				tick.Stop()
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most.Store(max(most.Load(), int64(m.HeapInuse)))
			}
		}
	})
	f()
	close(end)
	watching.Wait()
	return most.Load() - before
}

// TestFiles: many files and a large one go into a session and out of it, and neither server nor client holds more than
// pieces of them. With SANDBOXMCP_TEST_LONG=1 it is one of 1 GB.
func TestFiles(t *testing.T) {
	r := serveRuns(t)
	size := int64(96 << 20)
	if os.Getenv("SANDBOXMCP_TEST_LONG") == "1" {
		size = 1 << 30
	}
	info, err := Call(t.Context(), r.Client, CreateSession, NewSession{Language: "shell", Namespace: "team",
		Limits: pipeline.Limits{Disk: 1200, RAM: 2048}})
	must(t, err)
	for name, c := range map[string]struct {
		files int
		size  int64
	}{"many": {10_000, 100}, "large": {1, size}} {
		began := time.Now()
		grew := heap(func() {
			moved, err := r.PutFiles(t.Context(), info.ID, name, tarOf(c.files, c.size))
			if err != nil || moved.Files != c.files || moved.Bytes != int64(c.files)*c.size || moved.Path != "/workspace/"+name {
				t.Fatalf("%s in: %+v, %v", name, moved, err)
			}
			isTar, content, err := r.GetFiles(t.Context(), info.ID, name)
			must(t, err)
			defer content.Close()
			if n, size, err := entries(content); err != nil || !isTar || n != c.files || size != moved.Bytes {
				t.Errorf("%s out: %d files, %d bytes, %v", name, n, size, err)
			}
		})
		t.Logf("%s: %d files of %d bytes in and out in %s; the heap of both ends grew by %d MB at most", name, c.files, c.size,
			time.Since(began).Round(time.Millisecond), grew>>20)
		if grew > 48<<20 {
			t.Errorf("%s: the heap grew by %d MB", name, grew>>20)
		}
		r.exec(info.ID, "rm -r "+name)
	}
}

// TestFilesFail: files that are cut off, fail or find no room leave nothing in the session.
func TestFilesFail(t *testing.T) {
	r := serveRuns(t)
	info, err := Call(t.Context(), r.Client, CreateSession, NewSession{Language: "shell", Namespace: "team",
		Limits: pipeline.Limits{Disk: 16}})
	must(t, err)
	nothing := func(name string) {
		t.Helper()
		hosttest.Until(t, "what was not whole is gone: "+name, func() bool {
			_, text := r.exec(info.ID, "find . -mindepth 1 | grep -v '^./kept'")
			return text == ""
		})
	}
	var f *Failure
	if _, err := r.PutFiles(t.Context(), info.ID, "", tarOf(1, 32<<20)); !errors.As(err, &f) ||
		!strings.Contains(err.Error(), "no space left") {
		t.Errorf("a full disk: %v", err)
	}
	nothing("a full disk")
	broken := errors.New("the disk is gone")
	if _, err := r.PutFiles(t.Context(), info.ID, "", io.MultiReader(io.LimitReader(tarOf(100, 1000), 40_000), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a reader that fails: %v", err)
	}
	nothing("a reader that fails")
	ctx, cancel := context.WithCancel(t.Context())
	held, in := io.Pipe()
	done := make(chan error, 1)
	go func() { _, err := r.PutFiles(ctx, info.ID, "", held); done <- err }()
	_, err = io.Copy(in, io.LimitReader(tarOf(100, 1000), 40_000))
	must(t, err)
	hosttest.Until(t, "some of it has come", func() bool {
		_, text := r.exec(info.ID, "ls -A")
		return strings.HasPrefix(text, ".tar-")
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that leaves: %v", err)
	}
	nothing("a client that leaves")
	for _, name := range []string{"nothing", strings.Repeat("x", 300), "a\x00b", "~root/x"} {
		if _, _, err := r.GetFiles(t.Context(), info.ID, name); !errors.As(err, &f) || f.Status != 422 {
			t.Errorf("%q: %v", name, err)
		}
	}
	r.exec(info.ID, "mkdir -p kept/d; mkfifo kept/p; ln -s /dev/zero kept/z; ln -s /proc/self/mem kept/m")
	for _, name := range []string{"kept/p", "kept/z", "kept/m", "/proc/self/mem", "/dev/zero", "/proc/1/root", "/proc/kcore"} {
		isTar, content, err := r.GetFiles(t.Context(), info.ID, name)
		if err == nil {
			n, err := io.Copy(io.Discard, io.LimitReader(content, 1<<20))
			content.Close()
			if err == nil && (n > 0 || isTar) {
				t.Errorf("%s: got %d bytes", name, n)
			}
		}
	}
	if _, err := r.PutFiles(t.Context(), info.ID, "kept/p", tarOf(1, 1)); !errors.As(err, &f) || f.Status != 422 {
		t.Errorf("into a file: %v", err)
	}
}

// TestFilesThatChange: a directory that a program changes all the time is read as a whole tar, or not at all.
func TestFilesThatChange(t *testing.T) {
	r := serveRuns(t)
	info := r.create("shell")
	r.exec(info.ID, `mkdir d; (while :; do for n in 1 2 3 4 5 6 7 8 9; do head -c 300000 /dev/zero > d/$n; mkdir -p d/s/$n; truncate -s 10 d/$n; rm -rf d/s; ln -sfn /etc d/s; rm -f d/s d/$n; done; done) > /dev/null 2>&1 & `)
	whole := 0
	for range 60 {
		_, content, err := r.GetFiles(t.Context(), info.ID, "d")
		if err != nil {
			continue
		}
		if _, _, err := entries(content); err == nil {
			whole++
		}
		content.Close()
	}
	t.Logf("%d of 60 were read while they changed", whole)
	r.exec(info.ID, "kill %1; kill $(jobs -p)")
	hosttest.Until(t, "what stands still is read", func() bool {
		_, content, err := r.GetFiles(t.Context(), info.ID, "d")
		if err != nil {
			return false
		}
		defer content.Close()
		_, _, err = entries(content)
		return err == nil
	})
}

// TestFilesOfTheDead: a session ends at once, also while a client sends nothing more of its files, and another one does
// not read them.
func TestFilesOfTheDead(t *testing.T) {
	r := serveRuns(t)
	info := r.create("shell")
	r.exec(info.ID, "head -c 50000000 /dev/zero > large")
	_, content, err := r.GetFiles(t.Context(), info.ID, "large")
	must(t, err)
	defer content.Close()
	held, in := io.Pipe()
	defer in.Close()
	done := make(chan error, 1)
	go func() { _, err := r.PutFiles(t.Context(), info.ID, "in", held); done <- err }()
	_, err = io.Copy(in, io.LimitReader(tarOf(100, 1000), 40_000))
	must(t, err)
	hosttest.Until(t, "some of it has come", func() bool {
		_, text := r.exec(info.ID, "ls -A in")
		return strings.HasPrefix(text, ".tar-")
	})
	began := time.Now()
	_, err = Call(t.Context(), r.Client, EndSession, OfSession{ID: info.ID})
	must(t, err)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("its end took %s", took)
	}
	var f *Failure
	if err := <-done; !errors.As(err, &f) || f.Status != 410 {
		t.Errorf("who puts files into it: %v", err)
	}
}
