package audit

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/schema"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

func childOpen(path string, _ []string) error {
	fmt.Println("opens")
	l, err := Open(context.Background(), path)
	if err != nil {
		return err
	}
	return l.Close()
}

func TestOpenMakesPrivateFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	dir := filepath.Join(t.TempDir(), "state", "sandboxmcp")
	l := openLog(t, filepath.Join(dir, "audit.db"))
	fill(t, l, 1)
	for name, want := range map[string]os.FileMode{
		filepath.Dir(dir): os.ModeDir | 0o700, dir: os.ModeDir | 0o700, l.path: 0o600, l.path + "-wal": 0o600, l.path + "-shm": 0o600,
		l.acknowledgedPath(): 0o600,
	} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want mode %v", name, info.Mode(), err, want)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 2 {
		t.Errorf("a closed log is one file, and what was acknowledged; got %v", files)
	}
}

func TestOpenOddNames(t *testing.T) {
	names := []string{":memory:", "a b#c%41.db", "späße.db", "x?mode=memory", "file:x", "-", "a&_pragma=user_version(7)", "new\nline"}
	if runtime.GOOS == "windows" {
		names = []string{"a b#c%41.db", "späße.db"}
	}
	for _, name := range names {
		path := filepath.Join(t.TempDir(), name)
		fill(t, openLog(t, path), 1)
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%q: nothing is there: %v", name, err)
		}
	}
}

func TestOpenRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	l := openLog(t, "audit.db")
	t.Chdir(t.TempDir())
	fill(t, l, 1) // also after the working directory has changed
	wantSound(t, l, 1)
}

// TestOpenAtOnce: all of many goroutines that open first get the same log.
func TestOpenAtOnce(t *testing.T) {
	path := logPath(t)
	var g sync.WaitGroup
	for range 16 {
		g.Go(func() {
			l, err := Open(context.Background(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			if _, err := l.Append(context.Background(), Entry{Kind: "k"}); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	wantSound(t, openLog(t, path), 16)
}

// TestOpenRefuses: Open refuses a file that is not a valid log with a remedy, and does not change it.
func TestOpenRefuses(t *testing.T) {
	good := logPath(t)
	l := openLog(t, good)
	fill(t, l, 50)
	l.Close()
	log, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		content []byte
		sql     string
		want    []string
	}{
		{"an empty file", []byte{}, "", []string{"is empty", "move it", "backup"}},
		{"text", []byte("#!/bin/sh\necho hello\n"), "", []string{"damaged", "move it", "backup"}},
		{"garbage", bytes.Repeat([]byte{0xa5, 0x17}, 20000), "", []string{"damaged", "move it", "backup"}},
		{"zeros", make([]byte, 40000), "", []string{"damaged", "move it", "backup"}},
		{"a torn page", log[:700], "", []string{"damaged", "move it", "backup"}},
		{"half of it", log[:len(log)/2], "", []string{"damaged", "move it", "backup"}},
		{"without the last page", log[:len(log)-4096], "", []string{"damaged", "move it", "backup"}},
		{"without the first page", log[4096:], "", []string{"damaged", "move it", "backup"}},
		{"a foreign database", log, "PRAGMA application_id = 252006673", []string{"not an audit log", "another file"}},
		{"a newer format", log, "PRAGMA user_version = 4", []string{"version 4", "knows version 3", "a newer one"}},
		{"an older format", log, "PRAGMA user_version = 2", []string{"version 2", "which no release had", "move it away", "-owed",
			"only the sandboxmcp that wrote it"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := logPath(t)
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if test.sql != "" {
				tamper(t, path, test.sql)
			}
			before, _ := os.ReadFile(path)
			l, err := Open(t.Context(), path)
			if err == nil {
				l.Close()
			}
			wantError(t, err, append(test.want, path)...)
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
				t.Errorf("left beside it: %v", files)
			}
		})
	}
}

func TestOpenBadPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for name, want := range map[string]string{
		dir:                             "is a directory",
		filepath.Join(file, "audit.db"): "SANDBOXMCP_SQLITE_PATH",
		filepath.Join(dir, "link"):      "no such file",
	} {
		_, err := Open(t.Context(), name)
		wantError(t, err, want, name)
	}
	// If the file were deleted just before SQLite opens it, SQLite would create an empty one.
	db, err := sql.Open("sqlite", statefile.DataSource(filepath.Join(dir, "nowhere"), schema.LockWait))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	wantError(t, db.Ping(), "unable to open")
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("SQLite made a file")
	}
}

// TestLocked: Open waits for another process that locks the whole database, and then names it as the reason.
func TestLocked(t *testing.T) {
	path := logPath(t)
	fill(t, openLog(t, path), 1)
	const wait = 300 * time.Millisecond

	t.Run("open", func(t *testing.T) {
		path := logPath(t)
		openLog(t, path).Close()
		defer holdLock(t, path, "PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE")()
		start := time.Now()
		_, err := openWithWait(t.Context(), path, wait, nil)
		wantError(t, err, "another process", "fuser", "300ms")
		if took := time.Since(start); took < wait {
			t.Errorf("gave up after %v, before %v", took, wait)
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait/10)
		defer cancel()
		if _, err := openWithWait(ctx, path, time.Minute, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a ctx that ends: got %v", err)
		}
	})

	t.Run("append", func(t *testing.T) {
		l, err := openWithWait(t.Context(), path, wait, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		release := holdLock(t, path, "BEGIN IMMEDIATE")
		_, err = l.Append(t.Context(), Entry{Kind: "k"})
		wantError(t, err, "another process", "fuser", "300ms")
		if got := collect(t, l, Filter{}); len(got) != 1 { // readers do not wait
			t.Errorf("got %d rows, want 1", len(got))
		}
		release()
		fill(t, l, 1)
		wantSound(t, l, 2)
	})
}

// TestMoved: a log whose file is deleted or replaced while it is open must not continue into a file without a name.
func TestMoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be deleted")
	}
	for name, attack := range map[string]func(path string) error{
		"deleted":          os.Remove,
		"renamed":          func(path string) error { return os.Rename(path, path+".old") },
		"directory purged": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"replaced": func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.Remove(path), os.WriteFile(path, b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, filepath.Join(t.TempDir(), "state", "audit.db"))
			fill(t, l, 3)
			if err := attack(l.path); err != nil {
				t.Fatal(err)
			}
			_, err := l.Append(t.Context(), Entry{Kind: "k"})
			wantError(t, err, "deleted or replaced")
		})
	}
}

// tamper executes statements on the database at path that its triggers would refuse.
func tamper(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", statefile.DataSource(path, schema.LockWait))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, s := range append([]string{"PRAGMA synchronous = OFF"}, statements...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", s, err))
		}
	}
}

// TestCreateRemovesAbandoned simulates the leftovers of a process that was killed while it created the log.
func TestCreateRemovesAbandoned(t *testing.T) {
	dir := t.TempDir()
	abandoned, recent := filepath.Join(dir, ".new-audit-1"), filepath.Join(dir, ".new-audit-2")
	for _, d := range []string{abandoned, recent} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(abandoned, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	log, err := Open(t.Context(), filepath.Join(dir, "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := os.Stat(abandoned); err == nil {
		t.Error("the abandoned directory is still there")
	}
	if _, err := os.Stat(recent); err != nil {
		t.Errorf("a directory that may be in use was removed: %v", err)
	}
}
