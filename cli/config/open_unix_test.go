//go:build unix

package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestNoFile opens other file types and untrusted files. A hang fails by the test's timeout.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Symlink("fifo", path("link-to-fifo"))
	os.Symlink("loop", path("loop"))
	os.WriteFile(path("huge"), nil, 0o600)
	os.Truncate(path("huge"), 1<<40)
	os.WriteFile(path("anyone"), []byte("backend: docker\n"), 0o600)
	os.Chmod(path("anyone"), 0o646)
	os.WriteFile(path("group"), []byte("backend: docker\n"), 0o600)
	os.Chmod(path("group"), 0o664) // a umask of 002 is common, with a group for each user
	os.Symlink("group", path("link"))

	tests := []struct{ name, want string }{
		{path("fifo"), "this is a pipe"},
		{path("link-to-fifo"), "this is a pipe"},
		{path("loop"), "too many levels of symbolic links"},
		{path("huge"), "larger than 256 KB"},
		{path("anyone"), "everybody on this machine may write it: chmod o-w " + path("anyone")},
		{dir, "this is a directory"},
		{"/dev/zero", "not a regular file"},
		{"/dev/tty", "not a regular file"},
		{path("group"), ""},
		{path("link"), ""},
		{path("group") + "/x", "not a directory"},
		{path("a\x00b"), "invalid argument"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(Options{File: tt.name, Env: []string{"HOME=" + dir}})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestExchanged replaces the file by a FIFO, and back, while it is being opened.
func TestExchanged(t *testing.T) {
	dir := t.TempDir()
	name, pipe, file := filepath.Join(dir, "c.yaml"), filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(file, []byte("backend: docker\n"), 0o600)
	ctx, stop := context.WithCancel(t.Context())
	var exchanging sync.WaitGroup
	defer exchanging.Wait()
	defer stop()
	exchanging.Go(func() {
		for ctx.Err() == nil {
			for _, from := range []string{pipe, file} {
				os.Link(from, name+".new")
				os.Rename(name+".new", name)
			}
		}
	})
	read, refused := 0, 0
	for range 20_000 {
		c, err := Load(Options{File: name, Env: []string{"HOME=" + dir}})
		switch {
		case err != nil:
			refused++
		case c.Backend != "docker":
			t.Errorf("backend %s", c.Backend)
		default:
			read++
		}
		if min(read, refused) > 2000 {
			break
		}
	}
	t.Logf("read %d times, refused %d times", read, refused)
}
