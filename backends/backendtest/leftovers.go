package backendtest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/sandboxmcp/sandboxmcp/backends"
)

// testLeftovers: whatever way a run ends, the host looks as before.
func testLeftovers(t *testing.T, b *bench) {
	t.Setenv("TMPDIR", t.TempDir()) // one that nobody else writes to
	// What a library opens once in the life of this process is no leftover.
	if err := oneRun(t, b.backend, b, 0); err != nil {
		t.Fatal(err)
	}
	ways := []struct {
		name string
		run  func(t *testing.T, s backends.Sandbox, word string)
	}{
		{"never used", func(*testing.T, backends.Sandbox, string) {}},
		{"only files", func(t *testing.T, s backends.Sandbox, _ string) {
			if err := s.Files().Put("a/b", 0o644, strings.NewReader("x")); err != nil {
				t.Error(err)
			}
			listed(t, s)
		}},
		{"normal end", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "descendants.py")
			exec(t, s, "python", "descendants.py", word, "leave").ok(t)
		}},
		{"timeout", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "descendants.py")
			exec(t, s, "python", "descendants.py", word, "stay")
		}},
		{"cancelled", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "descendants.py")
			ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
			defer cancel()
			s.Exec(ctx, backends.Command{Args: []string{"python", "descendants.py", word, "stay"}}, backends.Streams{})
		}},
		{"killed", func(t *testing.T, s backends.Sandbox, word string) {
			exec(t, s, "bash", "-c", "kill -9 $$", word)
		}},
		{"out of memory", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "bombs.py")
			exec(t, s, "python", "bombs.py", "children", "700000000", word)
		}},
		{"no such program", func(t *testing.T, s backends.Sandbox, word string) {
			try(t, s, backends.Command{Args: []string{"/no/such/" + word}}, nil)
		}},
		{"sealed folders", func(t *testing.T, s backends.Sandbox, word string) {
			put(t, s, "tricks.py")
			exec(t, s, "python", "tricks.py", word)
		}},
	}
	for _, keep := range []bool{false, true} {
		for _, way := range ways {
			name := way.name
			if keep {
				name += ", session"
			}
			t.Run(name, func(t *testing.T) {
				before := b.host(t)
				backend := b.newBackend(t)
				word := ulid.Make().String()
				spec := b.spec("python")
				spec.Keep = keep
				spec.Limits.Wall = 2 * time.Second
				spec.Limits.RAM = 128 << 20
				s, err := backend.Start(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				way.run(t, s, word)
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if alive := processesWith(word); len(alive) > 0 {
					t.Errorf("alive after Close: %v", alive)
				}
				b.nothingLeft(t, spec.ID)
				if err := backend.Close(); err != nil {
					t.Errorf("close backend: %v", err)
				}
				b.unchanged(t, before)
			})
		}
	}
	t.Run("backend closed first", func(t *testing.T) {
		before := b.host(t)
		backend := b.newBackend(t)
		word := ulid.Make().String()
		s, err := backend.Start(t.Context(), b.spec("python"))
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "descendants.py")
		done := make(chan struct{})
		var out lockedBuffer
		go func() {
			defer close(done)
			s.Exec(context.Background(), backends.Command{Args: []string{"python", "descendants.py", word, "stay"}}, backends.Streams{Stdout: &out})
		}()
		for range 200 {
			if strings.Contains(out.String(), "ready") {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := backend.Close(); err != nil {
			t.Errorf("close backend: %v", err)
		}
		select {
		case <-done:
		case <-time.After(15 * time.Second):
			t.Error("Exec hangs although its backend was closed")
		}
		s.Close()
		gone(t, outcome{Stdout: out.String()}, word)
		b.unchanged(t, before)
	})
	t.Run("many at once", func(t *testing.T) {
		before := b.host(t)
		backend := b.newBackend(t)
		errs := make(chan error)
		for i := range 8 {
			go func() {
				var err error
				for range 10 {
					if err = oneRun(t, backend, b, i); err != nil {
						break
					}
				}
				errs <- err
			}()
		}
		for range 8 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		b.unchanged(t, before)
	})
}

func oneRun(t *testing.T, backend backends.Backend, b *bench, i int) error {
	spec := b.spec("shell")
	s, err := backend.Start(t.Context(), spec)
	if err != nil {
		return err
	}
	defer s.Close()
	var out lockedBuffer
	r, err := s.Exec(t.Context(), backends.Command{Args: []string{"bash", "-c", fmt.Sprintf("sleep 100 & echo %d", i)}}, backends.Streams{Stdout: &out})
	if err != nil {
		return err
	}
	if r.Ended != backends.EndedOK || out.String() != fmt.Sprintln(i) {
		return fmt.Errorf("run %d: ended %s, %q", i, r.Ended, out.String())
	}
	return s.Close()
}

// state is what of the host a sandbox could leave a trace in.
type state struct {
	mounts, cgroups, files, descriptors, children []string
	goroutines                                    int
}

func (b *bench) host(t testing.TB) state {
	t.Helper()
	return state{
		mounts: mounts(t), cgroups: cgroupFolders(), files: b.files(), descriptors: descriptors(),
		children: childrenOf(os.Getpid()), goroutines: runtime.NumGoroutine(),
	}
}

// unchanged compares the host with how it was. What ends by itself gets two seconds to do so.
func (b *bench) unchanged(t testing.TB, before state) {
	t.Helper()
	var diff []string
	for range 40 {
		after := b.host(t)
		diff = slices.Concat(added("mount", before.mounts, after.mounts), added("cgroup", before.cgroups, after.cgroups),
			added("file", before.files, after.files), added("descriptor", before.descriptors, after.descriptors),
			added("child", before.children, after.children))
		if n := after.goroutines - before.goroutines; n > 0 {
			diff = append(diff, fmt.Sprintf("%d goroutines", n))
		}
		if len(diff) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("left on the host: %s", strings.Join(diff, ", "))
}

// nothingLeft looks for what bears a sandbox's id, while its backend still lives.
func (b *bench) nothingLeft(t testing.TB, id string) {
	t.Helper()
	var found []string
	for _, lines := range [][]string{mounts(t), cgroupFolders(), b.files()} {
		for _, l := range lines {
			if strings.Contains(l, id) || strings.Contains(l, strings.ToLower(id)) {
				found = append(found, l)
			}
		}
	}
	found = append(found, processesWith(id)...)
	if b.o.Left != nil {
		found = append(found, b.o.Left(t, id)...)
	}
	if len(found) > 0 {
		t.Errorf("left of sandbox %s: %v", id, found)
	}
}

func added(kind string, before, after []string) []string {
	var new []string
	for _, a := range after {
		if !slices.Contains(before, a) {
			new = append(new, kind+" "+a)
		}
	}
	return new
}

func mounts(t testing.TB) []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// cgroupFolders lists all cgroups of the host by path.
func cgroupFolders() []string {
	var found []string
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// files lists all that lies in the backend's folders and the temporary one, and what bears our name
// in the folders that everybody uses.
func (b *bench) files() []string {
	own := regexp.MustCompile(`/Test[^/]*(/\d+)?$`) // t.TempDir's folders; what is in them counts
	var found []string
	for _, dir := range append([]string{os.TempDir()}, b.o.Dirs...) {
		filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && !own.MatchString(path) {
				found = append(found, path)
			}
			return nil
		})
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run", "/run/user/" + itoa(os.Getuid()), "/dev/mqueue"} {
		ours, _ := filepath.Glob(filepath.Join(dir, "*sandboxmcp*"))
		found = append(found, ours...)
	}
	return found
}

// descriptors lists what this process holds open, without the number, which may be used again.
func descriptors() []string {
	entries, _ := os.ReadDir("/proc/self/fd")
	count := map[string]int{}
	var found []string
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(to, "/proc/") {
			continue
		}
		if kind, _, ok := strings.Cut(to, ":["); ok {
			to = kind // pipes and sockets by how many there are
		}
		count[to]++
		found = append(found, fmt.Sprintf("%s (%d)", to, count[to]))
	}
	return found
}

// childrenOf lists the processes whose parent is pid, zombies too.
func childrenOf(pid int) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); ok && len(fields) > 1 && fields[1] == itoa(pid) {
			found = append(found, string(text[:min(40, len(text))]))
		}
	}
	return found
}
