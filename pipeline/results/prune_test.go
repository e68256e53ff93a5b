package results

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// aged puts a large run of which everything is as old as that.
func aged(t *testing.T, s *Store, age time.Duration) string {
	t.Helper()
	r := large(newID())
	must(t, s.write(t.Context(), r))
	makeOld(t, filepath.Join(s.c.Dir, r.ID), age)
	return r.ID
}

func makeOld(t *testing.T, path string, age time.Duration) {
	t.Helper()
	then := time.Now().Add(-age)
	var paths []string
	must(t, filepath.WalkDir(path, func(p string, _ os.DirEntry, err error) error {
		paths = append(paths, p)
		return err
	}))
	slices.Reverse(paths)
	for _, p := range paths {
		must(t, os.Chtimes(p, then, then))
	}
}

func TestPrune(t *testing.T) {
	s := openStore(t, Config{MaxAge: 10 * time.Hour, MaxBytes: 4 * large("").size()})
	old := aged(t, s, 11*time.Hour)
	oldRead := aged(t, s, 10*time.Hour+time.Minute)
	tooOldRead := aged(t, s, 12*time.Hour)
	for _, id := range []string{oldRead, tooOldRead} {
		if root, err := s.openRun(id); err != nil {
			t.Error(err)
		} else {
			s.markDirectory(root)
			root.Close()
		}
	}
	partial := newID()
	save(t, s, partial, "a", "a")
	lost := newID()
	save(t, s, lost, "b/c", "c")
	makeOld(t, filepath.Join(s.c.Dir, lost), 2*time.Hour)
	gone := filepath.Join(s.c.Dir, gonePrefix+"x")
	must(t, os.MkdirAll(filepath.Join(gone, "a"), 0o700))
	stranger := filepath.Join(s.c.Dir, "notes.txt")
	must(t, os.WriteFile(stranger, nil, 0o600))

	if _, err := s.Get(old); !errors.Is(err, ErrUnknown) {
		t.Errorf("too old, and not removed yet: %v", err)
	}
	var filled []string
	for i := range 6 {
		filled = append(filled, aged(t, s, time.Duration(9-i)*time.Hour))
	}
	// The oldest of them is being read, so the next ones go in its place.
	if _, err := s.Read(filled[0], "stdout", 0, 1); err != nil {
		t.Fatal(err)
	}
	s.prune()
	for id, want := range map[string]bool{
		old: false, oldRead: true, tooOldRead: false, partial: true, lost: false, gonePrefix + "x": false, "notes.txt": true,
		filled[0]: true, filled[1]: false, filled[2]: false, filled[3]: false, filled[4]: false, filled[5]: true,
	} {
		if _, err := os.Stat(filepath.Join(s.c.Dir, id)); (err == nil) != want {
			t.Errorf("%s (%d): there is %v, want %v", id, slices.Index(filled, id), err == nil, want)
		}
	}
}

// fileTime returns the time stamp of a file that is created now.
func fileTime(t *testing.T) time.Time {
	t.Helper()
	name := filepath.Join(t.TempDir(), "now")
	must(t, os.WriteFile(name, nil, 0o600))
	info, err := os.Stat(name)
	must(t, err)
	return info.ModTime()
}

// A run that was just put there and not read may go.
func TestPruneTheNew(t *testing.T) {
	s := openStore(t, Config{MaxBytes: 3 * large("").size()})
	var ids []string
	for range 12 {
		r := large(newID())
		must(t, s.Save(t.Context(), r))
		ids = append(ids, r.ID)
		began := fileTime(t)
		hosttest.Until(t, "the clock of files, which is coarse, moves on", func() bool { return fileTime(t).After(began) })
	}
	hosttest.Until(t, "there are 3 runs at most", func() bool { return len(s.List(Filter{})) <= 3 })
	list := s.List(Filter{})
	if len(list) > 3 || len(list) == 0 || list[0].ID != ids[11] {
		t.Errorf("%d runs are left, want the newest 3 at most", len(list))
	}
}

// A result that is stored during a scan causes another scan.
func TestPutWhilePruned(t *testing.T) {
	s := openStore(t, Config{MaxBytes: 3 * large("").size()})
	for range 3 {
		aged(t, s, time.Minute)
	}
	var once sync.Once
	s.now = func() time.Time {
		once.Do(func() { s.addBytes(large("").size()) })
		return time.Now()
	}
	s.prune()
	if len(s.full) != 1 {
		t.Error("a fourth run stays")
	}
}

// An open part survives the removal of its run: the file is read to its end.
func TestReadWhileRemoved(t *testing.T) {
	s := openStore(t, Config{})
	id := aged(t, s, 0)
	root, err := s.openRun(id)
	must(t, err)
	defer root.Close()
	f, err := open(root, "stdout")
	must(t, err)
	defer f.Close()
	dir, err := os.OpenRoot(s.c.Dir)
	must(t, err)
	defer dir.Close()
	must(t, remove(dir, id))
	must(t, remove(dir, id)) // by another process, at the same time
	if info, err := f.Stat(); err != nil || info.Size() != 100_000 {
		t.Errorf("%v, %v", info.Size(), err)
	}
	if _, err := s.Read(id, "stdout", 0, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestMeasure(t *testing.T) {
	s := openStore(t, Config{})
	id := newID()
	for i := range 20 {
		save(t, s, id, fmt.Sprintf("\xff%d/b", i), "x")
	}
	if got := measure(s.c.Dir, id).size; got < 20*2*block {
		t.Errorf("%d bytes, with 20 files in directories whose names are not text", got)
	}
}

func BenchmarkPut(b *testing.B) {
	for name, r := range map[string]Record{"small": small(""), "large": large("")} {
		b.Run(name, func(b *testing.B) {
			s := openStore(b, Config{MaxBytes: 64 << 20})
			for b.Loop() {
				r.ID = newID()
				must(b, s.Save(b.Context(), r))
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	s := openStore(b, Config{MaxBytes: 8 << 30})
	for range 2000 {
		r := large(newID())
		must(b, s.Save(b.Context(), r))
	}
	for b.Loop() {
		if got := s.List(Filter{Session: "none"}); len(got) > 0 {
			b.Fatal("found something")
		}
	}
}
