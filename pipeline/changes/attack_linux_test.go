package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// Directories of the path become links between Propose and Apply, and again and again during it: nothing is created or
// removed where the links lead.
func TestLinksSwapped(t *testing.T) {
	outcomes := map[bool]int{}
	for range hosttest.Rounds(75, 1500) {
		p := newProject(t, map[string]string{"d/e/a": "1", "d/e/b": "2", "d/c": "3"}).edit(map[string]string{"d/e/a": "one", "d/e/b": "!",
			"d/e/n/x": "4", "d/c": "three"})
		p.propose()
		outside := filepath.Join(filepath.Dir(p.host), "outside")
		putFile(t, outside, "e/a", "1")
		putFile(t, outside, "e/b", "2")
		putFile(t, outside, "c", "3")
		old := treeOf(t, outside)
		var stop atomic.Bool
		var g sync.WaitGroup
		g.Go(func() {
			for i := 0; !stop.Load(); i++ {
				name := filepath.Join(p.host, []string{"d", "d/e"}[i%2])
				if os.Rename(name, name+"-real") == nil {
					_ = os.Symlink(filepath.Join(outside, []string{"", "e"}[i%2]), name)
					time.Sleep(time.Duration(i%7) * 50 * time.Microsecond)
					_ = os.Remove(name)
					_ = os.Rename(name+"-real", name)
				}
				time.Sleep(time.Duration(i%11) * 100 * time.Microsecond)
			}
		})
		_, err := p.store.Apply(t.Context(), "01SET", ApplyOptions{})
		stop.Store(true)
		g.Wait()
		outcomes[err == nil]++
		if got := treeOf(t, outside); got != old {
			t.Fatalf("apply (%v) changed %s, was %s", err, got, old)
		}
		if err := p.store.Recover(t.Context()); err != nil && !errors.As(err, new(*Conflicts)) {
			t.Error(err)
		}
		if set, err := p.store.Get("01SET"); err != nil || set.Status == StatusApplying {
			t.Errorf("%s, %v", set.Status, err)
		}
	}
	t.Logf("%d applied, %d not", outcomes[true], outcomes[false])
}

// An editor of the host writes while an apply runs: its last text is never lost.
func TestHostEdits(t *testing.T) {
	refused, replaced := 0, 0
	for round := range hosttest.Rounds(75, 1500) {
		before, after := map[string]string{}, map[string]string{}
		for i := range 20 {
			before[fmt.Sprint("f", i)], after[fmt.Sprint("f", i)] = "old", "new"
		}
		p := newProject(t, before).edit(after)
		p.propose()
		reached := 0
		at := 1 + round%75
		p.store.reach = func(string) error {
			if reached++; reached == at {
				if round%2 == 0 {
					putFile(t, p.host, "f7", "mine")
				} else {
					putFile(t, p.host, "f7.tmp", "mine")
					if err := os.Rename(filepath.Join(p.host, "f7.tmp"), filepath.Join(p.host, "f7")); err != nil {
						t.Error(err)
					}
				}
			}
			return nil
		}
		_, err := p.store.Apply(t.Context(), "01SET", ApplyOptions{})
		got, readErr := os.ReadFile(filepath.Join(p.host, "f7"))
		if readErr != nil {
			t.Fatal(readErr)
		}
		other, _ := os.ReadFile(filepath.Join(p.host, "f8"))
		switch {
		case err == nil && (reached < at || string(got) == "mine"): // before or after the whole apply
			replaced++
		case err != nil && string(got) == "mine" && string(other) == "old":
			refused++
		default:
			t.Errorf("edited at point %d of %d: f7 is %q, f8 %q, %v", at, reached, got, other, err)
		}
	}
	if t.Logf("%d refused, %d replaced", refused, replaced); refused == 0 {
		t.Error("the host was never in the way")
	}
}

// Paths that are too long for one system call are opened step by step.
func TestLongPaths(t *testing.T) {
	p := newProject(t, map[string]string{"a": "1"})
	word := strings.Repeat("w", 254)
	var all []backends.Change
	name := ""
	for range 15 {
		name += word + "/"
		all = append(all, backends.Change{Name: strings.TrimSuffix(name, "/"), Mode: fs.ModeDir | 0o755})
	}
	long := name + strings.Repeat("f", maxWord-1)
	thin := strings.Repeat("d/", 2000) + "f"
	for i, c := range thin[:4000] {
		if c == '/' {
			all = append(all, backends.Change{Name: thin[:i], Mode: fs.ModeDir | 0o755})
		}
	}
	all = append(all, backends.Change{Name: long, Mode: 0o644}, backends.Change{Name: thin, Mode: 0o644})
	p.leave(all...)
	old := treeOf(t, p.host)
	p.apply(ApplyOptions{})
	tree, err := openTree(p.host)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for _, name := range []string{long, thin} {
		if s, _, err := tree.state(t.Context(), name); err != nil || s.Size != int64(len("content of "+name)) {
			t.Errorf("%d bytes: %+v, %v", len(name), s, err)
		}
	}
	p.undo()
	p.wantTree("after undo", old)
}

func TestMany(t *testing.T) {
	count := hosttest.Rounds(2_000, 100_000)
	before, after := map[string]string{}, map[string]string{}
	for i := range count {
		name := fmt.Sprintf("d%d/e%d/f%d", i%10, i%100, i)
		before[name] = "old"
		after[name] = []string{fmt.Sprint(i), "!", "+x old"}[i%3]
	}
	p := newProject(t, before).edit(after)
	old, now := treeOf(t, p.host), treeOf(t, p.work)
	start := time.Now()
	took := func(what string) {
		t.Logf("%s: %v", what, time.Since(start).Round(time.Millisecond))
		start = time.Now()
	}
	if set := p.propose(); len(set.Entries) != count {
		t.Errorf("%d entries, want %d", len(set.Entries), count)
	}
	took("propose")
	p.apply(ApplyOptions{})
	took("apply")
	if got := treeOf(t, p.host); got != now {
		t.Error("the trees differ after apply")
	}
	start = time.Now()
	p.undo()
	took("undo")
	if got := treeOf(t, p.host); got != old {
		t.Error("the trees differ after undo")
	}
}

// Apply changes nothing in a file system that is mounted in the directory.
func TestSubmount(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	p := newProject(t, map[string]string{"m/a": "1", "m/b": "2", "c": "3"}).edit(map[string]string{"m/a": "one", "c": "three"})
	m := filepath.Join(p.host, "m")
	if err := syscall.Mount(m, m, "", syscall.MS_BIND, ""); err != nil {
		hosttest.SkipMissing(t, "mounts", err.Error())
	}
	t.Cleanup(func() { syscall.Unmount(m, syscall.MNT_DETACH) })
	p.propose()
	old := treeOf(t, p.host)
	_, err := p.store.Apply(t.Context(), "01SET", ApplyOptions{})
	if err == nil || !strings.Contains(err.Error(), "m/a lies in another file system") {
		t.Errorf("got %v", err)
	}
	p.wantTree("after a conflict", old)
	p.apply(ApplyOptions{Paths: []string{"c"}})
	p.edit(map[string]string{"m": "!"})
	proposal := p.proposal("01SET2")
	if _, err := p.store.Propose(t.Context(), proposal); err != nil {
		t.Fatal(err)
	}
	if _, err = p.store.Apply(t.Context(), "01SET2", ApplyOptions{}); err == nil ||
		!strings.Contains(err.Error(), "m is another file system") {
		t.Errorf("got %v", err)
	}
}

// Apply creates, fills, empties and removes directories whose modes lock even their owner out.
func TestModes(t *testing.T) {
	p := newProject(t, map[string]string{"ro/a": "1", "rw/b": "2", "gone/c": "3"}).edit(map[string]string{"ro/a": "one", "rw/b": "two",
		"new/d": "4", "gone": "!"})
	modes := map[string]fs.FileMode{"host/ro": 0o555, "host/gone": 0o500, "work/ro": 0o755, "work/rw": 0o555, "work/new": 0o511,
		"work/new/d": 0o400}
	for name, mode := range modes {
		if err := os.Chmod(filepath.Join(filepath.Dir(p.host), name), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // so that an ordinary user can remove them
		for _, name := range []string{"host/ro", "host/gone", "host/rw", "host/new", "work/rw", "work/new"} {
			_ = os.Chmod(filepath.Join(filepath.Dir(p.host), name), 0o700)
		}
	})
	old, now := treeOf(t, p.host), treeOf(t, p.work)
	p.propose()
	p.apply(ApplyOptions{})
	p.wantTree("after apply", now)
	p.undo()
	p.wantTree("after undo", old)
}

// A file system that assigns its own modes to files, as FAT does, causes no conflict for an undo.
func TestModeless(t *testing.T) {
	p := newProject(t, killed.before).afterwards(killed.after)
	p.edit(map[string]string{"a": "+x one"})
	old, now := treeOf(t, p.host), treeOf(t, p.work)
	p.store.plain, p.store.modeless = true, true
	p.propose()
	p.apply(ApplyOptions{})
	if got := withoutModes(treeOf(t, p.host)); got != withoutModes(now) {
		t.Errorf("got %s, want %s", got, now)
	}
	p.undo()
	if got := withoutModes(treeOf(t, p.host)); got != withoutModes(old) {
		t.Errorf("got %s, want %s", got, old)
	}
}

// withoutModes removes the permission bits from a listing of treeOf.
func withoutModes(tree string) string {
	return regexp.MustCompile(` [-dL]+[-rwx]{9} `).ReplaceAllString(tree, " ")
}

// Directories of the host keep their set-group-ID bits, and new directories in them get the bit, as from mkdir(2).
func TestSetGroupID(t *testing.T) {
	p := newProject(t, map[string]string{"s/a": "1", "s/d/b": "2"}).edit(map[string]string{"s/n/x": "3", "s/a": "4"})
	for name, mode := range map[string]fs.FileMode{"host/s": 0o775 | fs.ModeSetgid, "host/s/a": 0o755 | fs.ModeSetuid,
		"host/s/d": 0o775 | fs.ModeSetgid, "work/s/d": 0o755} {
		if err := os.Chmod(filepath.Join(filepath.Dir(p.host), name), mode); err != nil {
			t.Fatal(err)
		}
	}
	set := p.propose()
	if i := slices.IndexFunc(set.Entries, func(e Entry) bool { return e.Path == "s/a" }); i < 0 ||
		!strings.Contains(set.Entries[i].Mark, "are lost") {
		t.Errorf("got %+v", set.Entries)
	}
	check := func(when string, want map[string]fs.FileMode) {
		t.Helper()
		for name, mode := range want {
			if info, err := os.Lstat(filepath.Join(p.host, name)); err != nil || info.Mode()&^fs.ModeDir != mode {
				t.Errorf("%s: %s: %v, %v", when, name, info.Mode(), err)
			}
		}
	}
	p.apply(ApplyOptions{})
	check("applied", map[string]fs.FileMode{"s": 0o755 | fs.ModeSetgid, "s/n": 0o755 | fs.ModeSetgid, "s/d": 0o755 | fs.ModeSetgid,
		"s/a": 0o644})
	p.undo()
	check("undone", map[string]fs.FileMode{"s": 0o775 | fs.ModeSetgid, "s/d": 0o775 | fs.ModeSetgid})
}
