//go:build linux

package backendtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sandboxmcp/sandboxmcp/backends/hosttest"
)

// state is the part of the host in which a sandbox could leave a trace.
type state struct {
	mounts, cgroups, files, descriptors, children, sysv []string
	goroutines                                          int
}

func (b *bench) hostState(t testing.TB) state {
	t.Helper()
	return state{
		mounts: listMounts(t), cgroups: cgroupDirs(), files: b.filesOnHost(), descriptors: descriptors(),
		children: childrenOf(os.Getpid()), sysv: sysvObjects(), goroutines: runtime.NumGoroutine(),
	}
}

// waitUnchanged waits until the host is in its former state, or fails with the additions.
func (b *bench) waitUnchanged(t testing.TB, before state) {
	t.Helper()
	last := ""
	hosttest.Until(t, "nothing is left on the host", func() bool {
		after := b.hostState(t)
		diff := slices.Concat(addedNames("mount", before.mounts, after.mounts), addedNames("cgroup", before.cgroups, after.cgroups),
			addedNames("file", before.files, after.files), addedNames("descriptor", before.descriptors, after.descriptors),
			addedNames("child", before.children, after.children), addedNames("System V", before.sysv, after.sysv))
		if n := after.goroutines - before.goroutines; n > 0 {
			diff = append(diff, fmt.Sprintf("%d goroutines", n))
		}
		if text := strings.Join(diff, ", "); text != last {
			last = text
			t.Logf("on the host: %s", text)
		}
		return len(diff) == 0
	})
}

// checkNothingLeft searches for names that contain a sandbox's id while its backend is open.
func (b *bench) checkNothingLeft(t testing.TB, id string) {
	t.Helper()
	var found []string
	for _, lines := range [][]string{listMounts(t), cgroupDirs(), b.filesOnHost()} {
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

func addedNames(kind string, before, after []string) []string {
	var new []string
	for _, a := range after {
		if !slices.Contains(before, a) {
			new = append(new, kind+" "+a)
		}
	}
	return new
}

func listMounts(t testing.TB) []string {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	// Concurrent tests of other packages mount small disks in their own directories.
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.Contains(line, "/go-test-script") || strings.Contains(line, "/Test")
	})
}

// numbered finds the PID in a cgroup's name.
var numbered = regexp.MustCompile(`sandboxmcp[^/]*?\.(\d+)\.`)

// strangers are cgroups that contained other processes' PIDs when the first test began: leftovers of killed
// processes, whose PIDs may have been reused.
var strangers = sync.OnceValue(func() []string {
	var found []string
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if m := numbered.FindStringSubmatch(path); m != nil && m[1] != itoa(os.Getpid()) {
			found = append(found, path)
			return filepath.SkipDir
		}
		return nil
	})
	return found
})

// cgroupDirs lists the host's cgroups with our prefix, except strangers and those of other living processes:
// another test run on the same host.
func cgroupDirs() []string {
	var found []string
	known := strangers()
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if slices.Contains(known, path) {
			return filepath.SkipDir
		}
		if m := numbered.FindStringSubmatch(path); m != nil && m[1] != itoa(os.Getpid()) {
			if _, err := os.Stat("/proc/" + m[1]); err == nil {
				return filepath.SkipDir
			}
		}
		if err == nil && d.IsDir() && strings.Contains(path, "sandboxmcp") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// filesOnHost lists all files in the backend's directories and the temporary one, and names with our prefix in
// shared directories.
func (b *bench) filesOnHost() []string {
	own := regexp.MustCompile(`/Test[^/]*(/\d+)?$`)      // directories of t.TempDir; their contents count
	inOwn := regexp.MustCompile(`/Test[^/]*/\d+/[^/]+$`) // an empty state directory is permitted
	var found []string
	for _, dir := range append([]string{os.TempDir()}, b.o.Dirs...) {
		filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && !own.MatchString(path) && !(inOwn.MatchString(path) && isEmpty(path)) {
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

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// descriptors lists the open files of this process, without their numbers, which are reused.
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
			to = kind // pipes and sockets by their number
		}
		count[to]++
		found = append(found, fmt.Sprintf("%s (%d)", to, count[to]))
	}
	return found
}

// sysvObjects lists the host's shared memory, semaphores and queues, by kind, key and id. They belong to no
// process, so they survive a kill of all processes.
func sysvObjects() []string {
	var found []string
	for _, kind := range []string{"shm", "sem", "msg"} {
		text, _ := os.ReadFile("/proc/sysvipc/" + kind)
		for i, line := range strings.Split(string(text), "\n") {
			if fields := strings.Fields(line); i > 0 && len(fields) > 1 {
				found = append(found, kind+" "+fields[0]+" "+fields[1])
			}
		}
	}
	return found
}

// childrenOf lists the child processes of pid, including zombies.
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
