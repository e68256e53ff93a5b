package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// TestMain lets the test binary be a process that writes until it is killed, or one that has no openat2.
func TestMain(m *testing.M) {
	if dir := os.Getenv("FILES_TEST_WRITE"); dir != "" {
		writeForever(dir)
	}
	if dir := os.Getenv("FILES_TEST_OLD"); dir != "" {
		os.Exit(onOldKernel(dir))
	}
	os.Exit(m.Run())
}

func TestModes(t *testing.T) {
	p := newPlace(t)
	name := p.root + "/n.txt"
	steps := []struct {
		mode, content, want string
		err                 error
	}{
		{Create, "one\n", "one\n", nil},
		{Create, "two\n", "one\n", fs.ErrExist},
		{Append, "two\n", "one\ntwo\n", nil},
		{Overwrite, "", "", nil},
		{Append, "three\n", "three\n", nil},
		{Overwrite, "four\n", "four\n", nil},
	}
	for i, s := range steps {
		before, _ := os.ReadFile(name)
		w, err := p.Write(t.Context(), name, []byte(s.content), s.mode)
		if !errors.Is(err, s.err) {
			t.Errorf("step %d: %v", i, err)
		}
		if got, _ := os.ReadFile(name); string(got) != s.want {
			t.Errorf("step %d: got %q, want %q", i, got, s.want)
		}
		if err == nil && (w.Had != (i > 0) || !bytes.Equal(w.Before, before) || w.Size != int64(len(s.want))) {
			t.Errorf("step %d: %+v", i, w)
		}
	}
	for _, mode := range []string{Append, Overwrite} { // what is not there is made
		if _, err := p.Write(t.Context(), p.root+"/"+mode, []byte(mode), mode); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Write(t.Context(), p.root+"/none/x", []byte("x"), Create); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := p.Write(t.Context(), p.root+"/large", make([]byte, p.MaxBytes+1), Create); err == nil {
		t.Error("more than may be written was written")
	}
	p.noTemps()
}

func (p *place) noTemps() {
	p.t.Helper()
	if left, _ := filepath.Glob(p.root + "/" + tempPrefix + "*"); len(left) > 0 {
		p.t.Errorf("left behind: %q", left)
	}
}

func TestModePreserved(t *testing.T) {
	p := newPlace(t)
	name := p.root + "/a.txt"
	for _, mode := range []uint32{0o640, 0o600, 0o777, 0o4755, 0o2755, 0o444} {
		if err := unix.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		w, err := p.Write(t.Context(), name, []byte("x"), Overwrite)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil || st.Mode&0o7777 != mode&0o777 {
			t.Errorf("mode %#o became %#o, %v", mode, st.Mode&0o7777, err)
		}
		if (len(w.Notes) > 0) != (mode > 0o777) {
			t.Errorf("mode %#o: notes %q", mode, w.Notes)
		}
	}
}

func TestOwnerPreserved(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root gives files away")
	}
	p := newPlace(t)
	name := p.root + "/a.txt"
	if err := os.Chown(name, 12345, 23456); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(t.Context(), name, []byte("x"), Overwrite); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil || st.Uid != 12345 || st.Gid != 23456 {
		t.Errorf("it is now of %d:%d, %v", st.Uid, st.Gid, err)
	}
}

func TestAttributesPreserved(t *testing.T) {
	p := newPlace(t)
	name := p.root + "/a.txt"
	if err := unix.Setxattr(name, "user.origin", []byte("here"), 0); err != nil {
		hosttest.SkipMissing(t, "extended attributes", err.Error())
	}
	if _, err := p.Write(t.Context(), name, []byte("x"), Overwrite); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	if n, err := unix.Getxattr(name, "user.origin", buf); err != nil || string(buf[:n]) != "here" {
		t.Errorf("got %q, %v", buf[:max(n, 0)], err)
	}
}

// To append to a file with two names would change both.
func TestHardLinked(t *testing.T) {
	p := newPlace(t)
	if err := os.Link(p.outside+"/secret", p.root+"/hard"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write(t.Context(), p.root+"/hard", []byte("x"), Append); err == nil {
		t.Error("appended to a file that has another name")
	}
	if _, err := p.Write(t.Context(), p.root+"/hard", []byte("x"), Overwrite); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(p.outside + "/secret"); string(got) != outsideText {
		t.Errorf("the other name has %q", got)
	}
}

func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		hosttest.SkipMissing(t, "root", "only root mounts")
	}
	p := newPlace(t)
	if err := unix.Mount("tmpfs", p.root, "tmpfs", 0, "size=256k"); err != nil {
		hosttest.SkipMissing(t, "mount", err.Error())
	}
	t.Cleanup(func() { _ = unix.Unmount(p.root, unix.MNT_DETACH) })
	p.writeFile(p.root+"/a.txt", "as it was\n")
	for _, mode := range []string{Overwrite, Append} {
		_, err := p.Write(t.Context(), p.root+"/a.txt", make([]byte, 400<<10), mode)
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "disk is full") {
			t.Errorf("%s: %v", mode, err)
		}
		if got, _ := os.ReadFile(p.root + "/a.txt"); string(got) != "as it was\n" {
			t.Errorf("%s: there are %d bytes now", mode, len(got))
		}
	}
	if _, err := p.Write(t.Context(), p.root+"/new", make([]byte, 400<<10), Create); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
	if _, err := os.Lstat(p.root + "/new"); err == nil {
		t.Error("half a file is there")
	}
	p.noTemps()
}

// Several writers at once: the file then has the whole text of one of them, and appended lines are all there.
func TestConcurrent(t *testing.T) {
	p := newPlace(t)
	p.writeFile(p.root+"/log", "")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			text := bytes.Repeat([]byte{byte('a' + i)}, 10_000)
			for range 20 {
				if _, err := p.Write(t.Context(), p.root+"/a.txt", text, Overwrite); err != nil {
					t.Error(err)
				}
				if _, err := p.Write(t.Context(), p.root+"/log", []byte("line\n"), Append); err != nil {
					t.Error(err)
				}
				if got, err := p.Read(t.Context(), p.root+"/a.txt"); err != nil || !whole(got) && string(got) != "inside\n" {
					t.Errorf("half a file was read: %d bytes, %v", len(got), err)
				}
			}
		})
	}
	all.Wait()
	if got, _ := os.ReadFile(p.root + "/log"); string(got) != strings.Repeat("line\n", 160) {
		t.Errorf("the log has %d bytes", len(got))
	}
	p.noTemps()
}

// If several create a file at once, one succeeds.
func TestCreateOnce(t *testing.T) {
	p := newPlace(t)
	for i := range 100 {
		name := fmt.Sprintf("%s/once%d", p.root, i)
		var all sync.WaitGroup
		made, begin := make(chan string, 8), make(chan struct{})
		for j := range 8 {
			all.Go(func() {
				<-begin
				text := fmt.Sprint("by ", j)
				if _, err := p.Write(t.Context(), name, []byte(text), Create); err == nil {
					made <- text
				} else if !errors.Is(err, fs.ErrExist) {
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
		if got, _ := os.ReadFile(name); len(made) != 1 || string(got) != <-made {
			t.Fatalf("round %d: %d more of 8 created the file, which is %q", i, len(made), got)
		}
	}
	p.noTemps()
}

// whole reports whether a text is the whole text of one writer.
func whole(text []byte) bool {
	return len(text) == 10_000 && bytes.Count(text, text[:1]) == len(text)
}

func writeForever(dir string) {
	a := Access{Roots: []Root{{Path: dir, Write: true}}, MaxBytes: 1 << 20}
	for i := 0; ; i++ {
		text := bytes.Repeat([]byte{byte('a' + i%26)}, 10_000)
		if _, err := a.Write(unlimited{}, dir+"/a.txt", text, Overwrite); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// unlimited is a context without an end, for a process without a test.
type unlimited struct{}

func (unlimited) Deadline() (time.Time, bool) { return time.Time{}, false }
func (unlimited) Done() <-chan struct{}       { return nil }
func (unlimited) Err() error                  { return nil }
func (unlimited) Value(any) any               { return nil }

func TestKilled(t *testing.T) {
	p := newPlace(t)
	stale := 0
	for i := range hosttest.Rounds(10, 100) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FILES_TEST_WRITE="+p.root)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for last, n := byte(0), 0; n <= i; { // each time it is somewhere else
			if got, _ := os.ReadFile(p.root + "/a.txt"); len(got) == 10_000 && got[0] != last {
				last, n = got[0], n+1
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if got, _ := os.ReadFile(p.root + "/a.txt"); !whole(got) {
			t.Fatalf("half a file: %d bytes", len(got))
		}
		left, _ := filepath.Glob(p.root + "/" + tempPrefix + "*")
		stale += len(left)
		if _, err := p.Write(t.Context(), p.root+"/a.txt", []byte("inside\n"), Overwrite); err != nil {
			t.Fatal(err)
		}
		p.noTemps()
	}
	t.Logf("%d unfinished files were left, and removed", stale)
}

// A temporary file that a writer left is removed; one that another writer uses is not.
func TestTidy(t *testing.T) {
	p := newPlace(t)
	busy, err := os.OpenFile(p.root+"/"+tempPrefix+"busy"+tempSuffix, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if err := unix.Flock(int(busy.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	stale := p.root + "/" + tempPrefix + "stale" + tempSuffix
	p.writeFile(stale, "x")
	for name, to := range map[string]string{"link": p.outside + "/secret", "dir": p.outside} {
		if err := os.Symlink(to, p.root+"/"+tempPrefix+name+tempSuffix); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Write(t.Context(), p.root+"/n", []byte("x"), Create); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stale one: %v", err)
	}
	if _, err := os.Lstat(busy.Name()); err != nil {
		t.Errorf("the busy one: %v", err)
	}
	if _, err := os.Stat(p.outside + "/secret"); err != nil {
		t.Error(err)
	}
	if _, err := p.Write(t.Context(), stale, []byte("x"), Create); err == nil {
		t.Error("a name of ours was given to somebody")
	}
}

func TestList(t *testing.T) {
	p := newPlace(t)
	for _, dir := range []string{".ssh", "sub/deep"} {
		if err := os.MkdirAll(p.root+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.writeFile(p.root+"/.ssh/key", "x")
	p.writeFile(p.root+"/sub/deep/\x1b\xff", "xyz")
	p.link(p.outside, "out")
	if err := unix.Mkfifo(p.root+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	want := `.ssh directory 0|a.txt file 7|fifo other 0|out link ` + fmt.Sprint(len(p.outside)) +
		`|sub directory 0|sub/b.txt file 6|sub/deep directory 0|sub/deep/` + "\x1b\xff" + ` file 3`
	all, more, err := p.List(t.Context(), p.root, true, 100)
	if got := visible(all); err != nil || more || got != want {
		t.Errorf("got %q, %v, %v, want %q", got, more, err, want)
	}
	all, more, err = p.List(t.Context(), p.root+"/", true, 3)
	if err != nil || !more || len(all) != 3 {
		t.Errorf("a limit: %v, %v, %v", all, more, err)
	}
	all, more, err = p.List(t.Context(), p.root+"/sub/", false, 2)
	if got := visible(all); err != nil || more || got != "b.txt file 6|deep directory 0" {
		t.Errorf("one directory: %q, %v, %v", got, more, err)
	}
	for _, name := range []string{p.root + "/.ssh", p.root + "/out", p.root + "/a.txt", p.outside, p.root + "/..", "/proc"} {
		if all, _, err := p.List(t.Context(), name, false, 10); err == nil {
			t.Errorf("%s was listed: %v", name, all)
		}
	}
}

func visible(all []Entry) string {
	var list []string
	for _, e := range all {
		list = append(list, fmt.Sprintf("%s %s %d", e.Path, e.Kind, e.Size))
	}
	return strings.Join(list, "|")
}
