package statefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestCannotSync(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&os.PathError{Op: "sync", Err: syscall.EINVAL}, true}, {&os.PathError{Op: "sync", Err: errors.ErrUnsupported}, true},
		{fmt.Errorf("sync: %w", syscall.ENOTSUP), true}, {&os.PathError{Op: "sync", Err: syscall.EIO}, false}, {nil, false},
	} {
		if got := cannotSync(tt.err); got != tt.want {
			t.Errorf("%v: got %v", tt.err, got)
		}
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func wantFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || string(got) != text || HasModes && info.Mode().Perm() != mode {
		t.Errorf("%s: got %q, %v, %v, %v; want %q, %v", path, got, info.Mode(), err, statErr, text, mode)
	}
	if left := names(t, filepath.Dir(path)); left != filepath.Base(path) {
		t.Errorf("the directory has %s", left)
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for text, mode := range map[string]fs.FileMode{"one": 0o600, "another": 0o644, "": 0o400} {
		if err := Replace(path, "test", []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, text, mode)
	}
	taken := filepath.Join(t.TempDir(), "dir")
	if err := os.MkdirAll(filepath.Join(taken, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(taken, "test", nil, 0o600); err == nil || names(t, filepath.Dir(taken)) != "dir" {
		t.Errorf("got %v, and %s", err, names(t, filepath.Dir(taken)))
	}
	if err := Replace(filepath.Join(t.TempDir(), "none", "file"), "test", nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// TestReplaceLink: a link is replaced, and its target stays.
func TestReplaceLink(t *testing.T) {
	dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := errors.Join(os.WriteFile(target, []byte("old"), 0o600), os.Symlink(target, filepath.Join(dir, "link"))); err != nil {
		t.Skip(err)
	}
	if err := Replace(filepath.Join(dir, "link"), "test", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFile(t, filepath.Join(dir, "link"), "new", 0o600)
	wantFile(t, target, "old", 0o600)
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "file")
	errFill := errors.New("the disk is full")
	if err := Create(path, "test", func(string) error { return errFill }); !errors.Is(err, errFill) || names(t, filepath.Dir(path)) != "" {
		t.Errorf("got %v, and %s", err, names(t, filepath.Dir(path)))
	}
	for _, text := range []string{"first", "second"} {
		if err := Create(path, "test", func(fresh string) error { return os.WriteFile(fresh, []byte(text), 0o600) }); err != nil {
			t.Fatal(err)
		}
		wantFile(t, path, "first", 0o600)
	}
}

func TestTidy(t *testing.T) {
	dir := t.TempDir()
	hourAgo := time.Now().Add(-time.Hour)
	for _, name := range []string{".new-test-1", ".new-test-2", ".new-other-1", "file"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if name != ".new-test-2" {
			os.Chtimes(path, hourAgo, hourAgo)
		}
	}
	for _, tt := range []struct {
		age  time.Duration
		want string
	}{{AbandonedAge, ".new-other-1 .new-test-2 file"}, {0, ".new-other-1 file"}} {
		RemoveAbandoned(dir, "test", tt.age)
		if left := names(t, dir); left != tt.want {
			t.Errorf("of age %v: left %s, want %s", tt.age, left, tt.want)
		}
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b, c := open(), open(), open()
	for i, step := range []struct {
		f      *os.File
		shared bool
		want   error
	}{{a, true, nil}, {b, true, nil}, {c, false, ErrLocked}} {
		if err := TryLock(step.f, step.shared); err != step.want {
			t.Errorf("step %d: got %v, want %v", i, err, step.want)
		}
	}
	a.Close()
	b.Close()
	if err := TryLock(c, false); err != nil {
		t.Error(err)
	}
	if err := TryLock(open(), true); err != ErrLocked {
		t.Errorf("got %v, want %v", err, ErrLocked)
	}
	if err := TryLock(a, false); err == nil || err == ErrLocked {
		t.Errorf("of a closed file: got %v", err)
	}
}

// TestLockFile: a waiter gets a lock when it is free, and gives up in time.
func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "lock")
	synctest.Test(t, func(t *testing.T) {
		const wait = 10 * time.Second
		held, err := LockFile(t.Context(), path, false, wait)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if f, err := LockFile(t.Context(), path, false, wait); !errors.Is(err, ErrLocked) || time.Since(start) != wait ||
			!strings.Contains(err.Error(), "waited 10s") {
			t.Errorf("while it is locked: got %v, %v after %v", f, err, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		errEnough := errors.New("enough")
		time.AfterFunc(time.Second, func() { cancel(errEnough) })
		if f, err := LockFile(ctx, path, false, wait); !errors.Is(err, ErrLocked) || !errors.Is(err, errEnough) {
			t.Errorf("cancelled: got %v, %v", f, err)
		}
		time.AfterFunc(time.Second, func() { held.Close() })
		start = time.Now()
		f, err := LockFile(t.Context(), path, false, wait)
		if took := time.Since(start); err != nil || took < time.Second || took > time.Second+lockPoll {
			t.Fatalf("got %v after %v", err, took)
		}
		f.Close()
		for _, shared := range []bool{true, true, false} {
			f, err := LockFile(t.Context(), path, shared, wait)
			if shared == (err != nil) {
				t.Errorf("shared: %v: got %v", shared, err)
			}
			defer f.Close()
		}
	})
	if left := names(t, filepath.Dir(path)); left != "lock" {
		t.Errorf("the directory has %s", left)
	}
	if f, err := LockFile(t.Context(), filepath.Dir(path), false, time.Second); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("of a directory: got %v, %v", f, err)
	}
}

func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	held, err := LockDir(t.Context(), dir, time.Second)
	if errors.Is(err, errors.ErrUnsupported) || runtime.GOOS == "windows" {
		t.Skip("this system has no locks of directories")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if f, err := LockDir(over, dir, time.Hour); !errors.Is(err, ErrLocked) {
		t.Errorf("while it is locked: got %v, %v", f, err)
	}
	if f, err := LockDir(t.Context(), filepath.Join(dir, "none"), time.Second); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of none: got %v, %v", f, err)
	}
}

func TestDatabase(t *testing.T) {
	for path, want := range map[string]string{
		"/a/b.db":        "file:///a/b.db?mode=rw&_pragma=busy_timeout(2000)&x=1",
		"/a b?mode=ro#%": "file:///a%20b%3Fmode=ro%23%25?mode=rw&_pragma=busy_timeout(2000)&x=1",
		"C:/a":           "file:///C:/a?mode=rw&_pragma=busy_timeout(2000)&x=1",
	} {
		if got := DataSource(path, 2*time.Second, "x=1"); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}
