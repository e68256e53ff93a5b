package podman

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oomKills returns what counts how often the kernel killed something in a container for want of memory. It is to
// be asked as soon as the container has ended: the cgroup is there until the engine has cleaned up.
func oomKills(pid int) func() int {
	files := oomFiles(pid)
	return func() int {
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			for line := range bytes.Lines(data) {
				if f := bytes.Fields(line); len(f) == 2 && string(f[0]) == "oom_kill" {
					n, _ := strconv.Atoi(string(f[1]))
					return n
				}
			}
		}
		return 0
	}
}

// oomFiles are where the kernel counts, for cgroup v1 and v2. A process can be in both.
func oomFiles(pid int) (files []string) {
	if !isFirst(pid) {
		return nil
	}
	groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) < 3:
		case parts[1] == "memory":
			files = append(files, filepath.Join("/sys/fs/cgroup/memory", parts[2], "memory.oom_control"))
		case parts[0] == "0":
			files = append(files, filepath.Join("/sys/fs/cgroup", parts[2], "memory.events"))
		}
	}
	return files
}
