package cli

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// footprint is the resource usage of a server and all of its processes, by resource.
type footprint map[string]int64

func (f footprint) String() string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(f)) {
		if n := f[what]; n > 1<<20 {
			parts = append(parts, fmt.Sprintf("%s %.1f MiB", what, float64(n)/(1<<20)))
		} else {
			parts = append(parts, fmt.Sprintf("%s %d", what, n))
		}
	}
	return strings.Join(parts, ", ")
}

// counts returns the values that are constant while a server is idle.
func (f footprint) counts() footprint {
	same := maps.Clone(f)
	maps.DeleteFunc(same, func(what string, _ int64) bool { return slack[what] > 0 })
	return same
}

func (f footprint) isWithin(before footprint) bool {
	for what, n := range f {
		if n > before[what]+slack[what] {
			return false
		}
	}
	return true
}

// kinds are the types of namespaces in /proc.
var kinds = []string{"cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"}

// footprint measures the server. Processes that end meanwhile are left out.
func (s *measured) footprint(t *testing.T) footprint {
	t.Helper()
	if _, err := s.ask.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	f := footprint{"cgroups": s.countCgroups(), "files": s.countFiles(t), "programs of BPF": countBPFPrograms()}
	if err := s.answers.Decode(&f); err != nil {
		t.Fatal(err)
	}
	namespaces, mounted := map[string]bool{}, map[string]bool{}
	for _, pid := range descendantPIDs() {
		proc := "/proc/" + strconv.Itoa(pid)
		tasks, _ := os.ReadDir(proc + "/task")
		f["processes"]++
		f["threads"] += int64(len(tasks))
		f["resident"] += residentBytes(proc)
		for _, link := range linkTargets(proc + "/fd") {
			if strings.HasPrefix(link, "/sys/fs/cgroup/") {
				f["files of cgroups"]++
				continue
			}
			f["descriptors"]++
			if kind, _, ok := strings.Cut(link, ":["); ok && slices.Contains(kinds, kind) {
				namespaces[link] = true // open files, perhaps of a namespace without a process
			}
		}
		for _, link := range linkTargets(proc + "/ns") {
			namespaces[link] = true
			if strings.HasPrefix(link, "mnt:") && !mounted[link] {
				mounted[link] = true
				f["mounts"] += s.countMounts(proc)
			}
		}
	}
	for link := range namespaces {
		kind, _, _ := strings.Cut(link, ":")
		f["namespaces "+kind]++
	}
	return f
}

// countBPFPrograms counts the host's BPF programs, ours and others'; 0 if the kernel restricts them to root.
func countBPFPrograms() int64 {
	text, _ := os.ReadFile("/proc/vmallocinfo")
	return int64(strings.Count(string(text), " bpf_prog_alloc"))
}

// linkTargets returns the targets of the links in a directory of /proc.
func linkTargets(dir string) (all []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if link, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			all = append(all, link)
		}
	}
	return all
}

// countMounts counts the mounts in a process's mount namespace. In our own, where others mount, too, it counts those in the
// server's directories.
func (s *measured) countMounts(proc string) (n int64) {
	ours, _ := os.Readlink("/proc/self/ns/mnt")
	theirs, _ := os.Readlink(proc + "/ns/mnt")
	text, _ := os.ReadFile(proc + "/mountinfo")
	for line := range strings.Lines(string(text)) {
		if ours != theirs || strings.Contains(line, s.home) {
			n++
		}
	}
	return n
}

// residentBytes returns the resident memory of a process, in bytes.
func residentBytes(proc string) int64 {
	text, _ := os.ReadFile(proc + "/statm")
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// countCgroups counts the server's cgroups, which are named after it.
func (s *measured) countCgroups() (n int64) {
	own := fmt.Sprintf("sandboxmcp.%d.", s.cmd.Process.Pid)
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(path, own) {
			n++
		}
		return nil
	})
	return n
}

// countFiles counts the files in the server's directories, except for stored results, which are bounded by size.
func (s *measured) countFiles(t *testing.T) (n int64) {
	t.Helper()
	err := filepath.WalkDir(s.home, func(path string, d fs.DirEntry, err error) error {
		if path == filepath.Join(s.home, "sandboxmcp", "runs") {
			return fs.SkipDir
		}
		n++
		return nil // files that were removed meanwhile are not an error
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *measured) countDescriptors() []string {
	all := linkTargets(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	slices.Sort(all)
	return all
}
