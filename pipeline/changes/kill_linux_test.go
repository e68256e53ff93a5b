package changes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// killed has every kind of step.
var killed = struct{ before, after map[string]string }{
	map[string]string{"a": "1", "b": "2", "d/e": "3", "d/f/g": "4", "l": "-> a", "x": "+x 5", "file": "6", "dir/in": "7"},
	map[string]string{"a": "one", "b": "!", "d": "!", "l": "-> b", "x": "5", "file/now/a": "dir", "dir": "file", "n/o": "8", "n/p/q": "9"},
}

// TestMain is also the child process that applies or undoes a set, and is killed at one point.
func TestMain(m *testing.M) {
	verb := os.Getenv("CHANGES_TEST_CHILD")
	if verb == "" {
		os.Exit(m.Run())
	}
	point, _ := strconv.Atoi(os.Args[2])
	s := &Store{c: Config{Dir: os.Args[1]}}
	seen := 0
	s.reach = func(string) error {
		if seen++; seen == point {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return nil
	}
	var err error
	switch verb {
	case "apply", "apply plainly":
		s.plain = verb != "apply"
		_, err = s.Apply(context.Background(), "01SET", ApplyOptions{})
	case "undo", "undo plainly":
		s.plain = verb != "undo"
		_, err = s.Undo(context.Background(), "01SET")
	case "recover":
		err = s.Recover(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// child runs this program again, and reports whether the child was killed before its end.
func (p *project) child(verb string, point int) bool {
	p.t.Helper()
	cmd := hosttest.Role(p.t.(*testing.T), "")
	cmd.Env = append(cmd.Env, "CHANGES_TEST_CHILD="+verb)
	cmd.Args = append(cmd.Args[:1], p.store.c.Dir, strconv.Itoa(point))
	out, err := cmd.CombinedOutput()
	if len(out) > 0 {
		p.t.Fatalf("%s, point %d: %s", verb, point, out)
	}
	return err != nil
}

// A kill at any point of an apply, and of the recovery after it, leaves the old or the new tree, and no stage.
func TestKill(t *testing.T) {
	for _, verb := range []string{"apply", "undo", "apply plainly", "undo plainly"} {
		outcomes := map[string]int{}
		stride := 1
		if strings.HasSuffix(verb, "plainly") {
			stride = hosttest.Rounds(3, 1)
		}
		for point, alive := 1, false; !alive; point += stride {
			p := newProject(t, killed.before).afterwards(killed.after)
			old, now := treeOf(t, p.host), treeOf(t, p.work)
			p.propose()
			undoes := strings.HasPrefix(verb, "undo")
			if undoes {
				p.apply(ApplyOptions{})
				old, now = now, old
			}
			alive = !p.child(verb, point)
			if point%3 == 0 {
				p.child("recover", 1+point%7)
			}
			s := openStore(t, p.store.c.Dir)
			switch treeOf(t, p.host) {
			case old:
				outcomes["old"]++
			case now:
				outcomes["new"]++
			default:
				p.wantTree(fmt.Sprintf("%s killed at point %d", verb, point), now)
			}
			set, err := s.Get("01SET")
			if err != nil || set.Status == StatusApplying {
				t.Errorf("%s killed at %d: %v, %s", verb, point, err, set.Status)
			}
			if treeOf(t, p.host) == old { // the same apply works again
				if undoes {
					p.undo()
				} else {
					p.apply(ApplyOptions{})
				}
				p.wantTree(fmt.Sprintf("%s once more after a kill at %d", verb, point), now)
			}
		}
		if t.Logf("%s: %v", verb, outcomes); outcomes["old"] < 5 || outcomes["new"] < 5 {
			t.Errorf("%s: %v: not all points were reached", verb, outcomes)
		}
	}
}

// An error at any point leaves the old tree, or the new one once the store is opened again.
func TestErrors(t *testing.T) {
	for _, file := range []bool{false, true} {
		steps := 0
		for point, reached := 1, true; reached; point++ {
			p := newProject(t, killed.before).afterwards(killed.after)
			old, now := treeOf(t, p.host), treeOf(t, p.work)
			p.propose()
			reached = false
			seen, failedAt := 0, ""
			p.store.reach = func(at string) error {
				if seen++; seen == point || file && seen > point {
					reached, failedAt = true, at
					return syscall.ENOSPC
				}
				return nil
			}
			_, err := p.store.Apply(t.Context(), "01SET", ApplyOptions{})
			if reached != (err != nil) || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("point %d, %s: %v", point, failedAt, err)
			}
			if failedAt == "step" {
				steps++
				if !file {
					p.wantTree(fmt.Sprintf("after an error at step %d", point), old)
				}
			}
			openStore(t, p.store.c.Dir)
			if got := treeOf(t, p.host); got != old && got != now {
				p.wantTree(fmt.Sprintf("after an error at %d, %s", point, failedAt), now)
			}
		}
		if !file && steps < 10 {
			t.Errorf("%d steps", steps)
		}
	}
}

// A disk that is full at any moment leaves the old tree.
func TestFull(t *testing.T) {
	if !hosttest.RunApart(t) {
		return
	}
	disk := t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=256k"); err != nil {
		hosttest.SkipMissing(t, "mounts", err.Error())
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	p := newProject(t, killed.before).afterwards(killed.after)
	p.edit(map[string]string{"large": strings.Repeat("x", 20_000), "a": strings.Repeat("y", 9_000)})
	moved := filepath.Join(disk, "host")
	if err := os.CopyFS(moved, os.DirFS(p.host)); err != nil {
		t.Fatal(err)
	}
	p.host = moved
	p.propose()
	old := treeOf(t, p.host)
	full := 0
	for room := int64(0); room < 60_000; room += 4096 {
		var st syscall.Statfs_t
		if err := syscall.Statfs(disk, &st); err != nil {
			t.Fatal(err)
		}
		filler := filepath.Join(disk, "filler")
		if free := int64(st.Bavail) * st.Bsize; free > room {
			if err := os.WriteFile(filler, make([]byte, free-room), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := p.store.Apply(t.Context(), "01SET", ApplyOptions{})
		if err != nil {
			full++
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			p.wantTree(fmt.Sprintf("with %d bytes free", room), old)
		} else {
			if os.Remove(filler); untimed(treeOf(t, p.host)) != untimed(treeOf(t, p.work)) {
				t.Errorf("got %s, want %s", treeOf(t, p.host), treeOf(t, p.work))
			}
			p.undo()
		}
		_ = os.Remove(filler)
	}
	if full < 3 {
		t.Errorf("the disk was full %d times", full)
	}
}
