package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// becomeSubreaper makes this process the subreaper of its descendants, so that orphans of a server remain its children.
func becomeSubreaper(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
}

// reapOrphans returns the command lines of all descendants of this process, which has no child of its own left. It reaps
// dead ones.
func reapOrphans() []string {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
			return commandLinesOf(descendantPIDs())
		}
	}
}

// descendantPIDs returns all processes that this one and its children started.
func descendantPIDs() (all []int) {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[1-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		end := strings.LastIndexByte(string(text), ')')
		if end < 0 {
			continue
		}
		fields := strings.Fields(string(text[end+1:]))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
	}
	for next := children[os.Getpid()]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0]]...)
	}
	return all
}

// commandLinesOf returns the command lines of processes that are still running.
func commandLinesOf(pids []int) (all []string) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil {
			all = append(all, fmt.Sprintf("%d %s", pid, strings.ReplaceAll(string(text), "\x00", " ")))
		}
	}
	return all
}
