package enginetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Prefixes of this package's directories, by which the next test finds those of a killed one. They are not in
// os.TempDir, which tests change: a socket's path has at most 107 bytes.
const (
	engineDirs    = "/tmp/sbengine-"
	temporaryDirs = "/tmp/sbmcp-"
)

// heldFD is the supervisor's descriptor of its directory.
const heldFD = 3

// newDir makes a directory that belongs to this process while it is held, also by a child.
func newDir(prefix string) (dir string, held *os.File, err error) {
	if dir, err = os.MkdirTemp(filepath.Dir(prefix), filepath.Base(prefix)); err != nil {
		return "", nil, err
	}
	held, err = lockDir(dir)
	return dir, held, err
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := statefile.TryLock(f, false); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// sweep removes the leftovers of tests whose supervisors were killed, too. An empty directory may be one that is
// about to be held.
func sweep() {
	for _, prefix := range []string{engineDirs, temporaryDirs} {
		dirs, _ := filepath.Glob(prefix + "[0-9]*")
		for _, dir := range dirs {
			if entries, _ := os.ReadDir(dir); len(entries) == 0 && isNew(dir) {
				continue
			}
			held, err := lockDir(dir)
			if err != nil {
				continue
			}
			killEngine(dir)
			removeDir(dir)
			held.Close()
		}
	}
}

func isNew(dir string) bool {
	info, err := os.Stat(dir)
	return err != nil || time.Since(info.ModTime()) < time.Minute
}

// killEngine kills the processes of a directory's engine: those whose arguments name the directory, such as shims
// and conmon, and those in containers whose root is mounted from it. Their networks have no names, and end with
// them.
func killEngine(dir string) {
	files, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range files {
		args, _ := os.ReadFile(proc + "/cmdline")
		if !bytes.Contains(args, []byte(dir+"/")) && !strings.Contains(rootMount(proc), dir+"/") {
			continue
		}
		var pid int
		fmt.Sscan(filepath.Base(proc), &pid)
		unix.Kill(pid, unix.SIGKILL)
	}
}

// rootMount returns the line of mountinfo for a process's root.
func rootMount(proc string) string {
	text, _ := os.ReadFile(proc + "/mountinfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == "/" {
			return line
		}
	}
	return ""
}

// removeDir removes a directory with its mounts, and the cgroups of its engine.
func removeDir(dir string) {
	points := mountsUnder("/proc/self/mountinfo", dir)
	slices.Reverse(points) // the last is on top
	for _, point := range points {
		unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	// Podman may forget the cgroup of a container that it removes while it ends; its events name them all.
	names := []string{filepath.Base(dir)}
	text, _ := os.ReadFile(dir + "/tmp/events/events.log")
	for _, id := range regexp.MustCompile(`[0-9a-f]{64}`).FindAllString(string(text), -1) {
		names = append(names, "libpod-"+id, "libpod-conmon-"+id)
	}
	stores, _ := filepath.Glob(dir + "/*/root/overlay-containers/*") // of a test's own Podman
	for _, c := range stores {
		names = append(names, "libpod-"+filepath.Base(c), "libpod-conmon-"+filepath.Base(c))
	}
	// A process that is being killed holds its cgroup for a moment, and the directory's name is needed to find it.
	for begun := time.Now(); !removeCgroups(names); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			return
		}
	}
	os.RemoveAll(dir)
}

// removeCgroups removes the cgroups with these names, and reports whether all are gone.
func removeCgroups(names []string) (gone bool) {
	gone = true
	filepath.WalkDir("/sys/fs/cgroup", func(path string, _ os.DirEntry, err error) error {
		if err == nil && slices.Contains(names, filepath.Base(path)) {
			removeCgroup(path)
			_, err := os.Lstat(path)
			gone = gone && err != nil
			return filepath.SkipDir
		}
		return nil
	})
	return gone
}
