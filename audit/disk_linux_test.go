package audit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestFullDisk: on a full disk, appends fail with that error, no acknowledged row is lost, and appends continue as
// soon as there is space again.
func TestFullDisk(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	dir, free := smallDisk(t, 200<<10)
	l, err := Open(t.Context(), filepath.Join(dir, "audit.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	acked := fillDisk(t, l)
	wantSound(t, l, acked)

	_, err = Open(t.Context(), filepath.Join(dir, "second.db"))
	wantError(t, err, "free some disk space")
	if _, err := os.Stat(filepath.Join(dir, "second.db")); err == nil {
		t.Error("a half made log was left")
	}
	free()
	fill(t, l, 3)
	wantSound(t, l, acked+3)
	t.Logf("%d rows before the disk was full", acked)
}

// TestFullDiskSigned: on a full disk, signing fails, too. That is reported, nothing is lost, and the rows are
// signed as soon as there is space again.
func TestFullDiskSigned(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	dir, free := smallDisk(t, 600<<10)
	path := filepath.Join(dir, "audit.db")
	l := openSigned(t, path, signing(10))
	fill(t, l, 1)
	if _, err := l.Checkpoint(t.Context()); err != nil { // otherwise the disk may be full before the first
		t.Fatal(err)
	}
	acked := 1 + fillDisk(t, l)
	before := collect(t, l, Filter{})
	if _, err := l.Checkpoint(t.Context()); err != nil {
		wantError(t, err, "free some disk space")
	}
	if r, err := l.Verify(t.Context(), VerifyOptions{Keys: keys('a')}); err != nil || r.Bad != nil || r.Rows != acked {
		t.Errorf("%d rows, %+v, %v; want %d", r.Rows, r.Bad, err, acked)
	}
	free()
	fill(t, l, 3)
	after := collect(t, l, Filter{})
	if diff := cmp.Diff(before, after[:len(before)]); diff != "" {
		t.Errorf("before (-), after (+):\n%s", diff)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wantSigned(t, path, acked+3, 'a')
	t.Logf("%d rows before the disk was full", acked)
}

// TestRotateFullDisk: on a full disk, old files are deleted and the active one is closed with the reserved space;
// appends continue after that.
func TestRotateFullDisk(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	dir, _ := smallDisk(t, 12<<20)
	path := filepath.Join(dir, "audit.db")
	l := openSigned(t, path, signing(1000))
	hosttest.Until(t, "the reserve is there", func() bool { _, err := os.Stat(l.reservePath()); return err == nil })
	noise := make([]byte, 4000)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for range 200 {
		if _, err := l.Append(t.Context(), Entry{Kind: "k", Data: map[string][]byte{"x": noise}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a call that frees no space keeps the reserve
		fillDisk(t, l)
		if _, err := l.Rotate(t.Context()); err != nil {
			t.Error("on a full disk:", err)
		}
		if deleted, err := l.Prune(t.Context(), time.Now().Add(-time.Hour)); err != nil || len(deleted) != 0 {
			t.Errorf("%v was deleted: %v", deleted, err)
		}
	}
	fillDisk(t, l)
	if deleted, err := l.Prune(t.Context(), time.Now()); err != nil || len(deleted) < 2 {
		t.Errorf("%v was deleted: %v", deleted, err)
	}
	fill(t, l, 100)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if r := verify(t, path, VerifyOptions{Keys: keys('a')}); r.Bad != nil || r.Unsigned != 0 || r.Absent == 0 {
		t.Errorf("%+v, bad %+v", r, r.Bad)
	}
}

// TestOpenFullDisk: a log that no process has open can be opened on a full disk repeatedly, to rotate it: its -shm
// file uses reserved space.
func TestOpenFullDisk(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	dir, _ := smallDisk(t, 8<<20)
	path := filepath.Join(dir, "audit.db")
	l := openSigned(t, path, signing(1000))
	hosttest.Until(t, "the reserve is there", func() bool { _, err := os.Stat(l.reservePath()); return err == nil })
	fill(t, l, 10)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	takeAll(t, dir)
	if _, err := OpenSigned(t.Context(), path, signing(1000)); err == nil || !strings.Contains(err.Error(), "sandboxmcp audit rotate") {
		t.Fatalf("opened on a full disk: %v, want what to type", err)
	}
	s := signing(1000)
	s.FreesSpace = true
	for n := range 3 {
		l, err := OpenSigned(t.Context(), path, s)
		if err != nil {
			t.Fatalf("opened for the %d. time: %v", n+1, err)
		}
		if _, err := l.Rotate(t.Context()); err != nil {
			t.Error(err)
		}
		if deleted, err := l.Prune(t.Context(), time.Now()); err != nil || n == 0 && len(deleted) != 1 {
			t.Errorf("%v was deleted: %v", deleted, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		takeAll(t, dir)
	}
	if r := readFull(t, path); r.Unsigned != 0 {
		t.Errorf("%+v", r)
	}
}

// TestReadFullDisk: a log that no process has open can be read on a full disk, including the rows of a killed
// writer, in all of its files.
func TestReadFullDisk(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	dir, _ := smallDisk(t, 8<<20)
	path := filepath.Join(dir, "audit.db")
	l := openSigned(t, path, signing(1000))
	fill(t, l, 10)
	_, err := l.Rotate(t.Context())
	if err = errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	acked := killWriter(t, path, 60)
	if err := os.Remove(fileName(path, 2) + "-shm"); err != nil { // its space may be used by others
		t.Fatal(err)
	}
	takeAll(t, dir)
	if r := readFull(t, path); r.Rows < acked.seq || r.Unsigned == 0 || len(r.Files) != 2 {
		t.Errorf("%+v", r)
	}
	if err := os.Remove(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	l = openSigned(t, path, signing(1000))
	if rows := fill(t, l, 1); rows[0].Seq <= acked.seq {
		t.Errorf("row %d follows row %d", rows[0].Seq, acked.seq)
	}
}

// readFull verifies and reads a log on a full disk.
func readFull(t *testing.T, path string) Report {
	t.Helper()
	if l, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "sandboxmcp audit rotate") {
		t.Fatalf("opened on a full disk: %p, %v, want what to type", l, err)
	}
	l, err := OpenToRead(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Verify(t.Context(), VerifyOptions{Keys: keys('a')})
	if err != nil || r.Bad != nil {
		t.Errorf("%+v, %+v, %v", r, r.Bad, err)
	}
	if rows := collect(t, l, Filter{}); int64(len(rows)) != r.Rows {
		t.Errorf("%d rows are read, %d verified", len(rows), r.Rows)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return r
}

// takeAll fills a file system completely.
func takeAll(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "other"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// smallDisk makes a file system with so many bytes free, until free enlarges it.
func smallDisk(t *testing.T, bytes int) (dir string, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes+100<<10)); err != nil {
		hosttest.SkipMissing(t, "tmpfs", err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, func() {
		if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
			t.Fatal(err)
		}
	}
}

// fillDisk appends until the disk is full, and returns the number of acknowledged rows.
func fillDisk(t *testing.T, l *Log) (acked int64) {
	t.Helper()
	noise := make([]byte, 4000) // incompressible
	rand.NewChaCha8([32]byte{}).Read(noise)
	entry := Entry{Kind: "k", Data: map[string][]byte{"x": noise}}
	var err error
	for err == nil {
		if _, err = l.Append(t.Context(), entry); err == nil {
			acked++
		}
	}
	wantError(t, err, "free some disk space")
	if _, err := l.Append(t.Context(), entry); err == nil {
		acked++
	}
	return acked
}

// TestUnwritable opens a log as an ordinary user without write or read permission for its directory.
func TestUnwritable(t *testing.T) {
	dir := filepath.Join(publicDir(t), "state")
	path := filepath.Join(dir, "audit.db")
	fill(t, openLog(t, path), 1)
	for name, test := range map[string]struct {
		path      string
		dir, file os.FileMode
		want      string
	}{
		"no new file":      {filepath.Join(dir, "new.db"), 0o555, 0o600, "permission denied"},
		"no new directory": {filepath.Join(dir, "sub", "new.db"), 0o555, 0o600, "permission denied"},
		"a private log":    {path, 0o755, 0, "unable to open"},
		"no permission":    {path, 0, 0o600, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := errors.Join(os.Chmod(path, test.file), os.Chmod(dir, test.dir)); err != nil {
				t.Fatal(err)
			}
			out := openAsUser(t, test.path)
			if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o600)); err != nil {
				t.Fatal(err)
			}
			wantError(t, errors.New(out), test.path, test.want, "SANDBOXMCP_SQLITE_PATH")
		})
	}
}

// openAsUser opens a log in a process of an ordinary user, and returns that process's output.
func openAsUser(t *testing.T, path string) string {
	t.Helper()
	cmd := command(t, "open", path)
	if os.Getuid() == 0 {
		cmd.Path = publicCopy(t, cmd.Path)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.Output()
	if _, failed := err.(*exec.ExitError); !failed {
		t.Fatalf("want it to fail, got %v: %s", err, out)
	}
	return string(out)
}

// publicDir makes a temporary directory that every user can enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func publicCopy(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(publicDir(t), "audit.test")
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return copied
}
