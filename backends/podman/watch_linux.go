package podman

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// awaitExit waits for the end of a container's first process, and reports whether it has ended. It returns false at
// once if there is no such process here, as for an engine on another machine, and when ctx ends first.
func awaitExit(ctx context.Context, pid int) (ended bool) {
	if pid <= 1 {
		return false
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false
	}
	process := os.NewFile(uintptr(fd), "pidfd") // the PID can't be reused while this is open
	defer process.Close()
	raw, err := process.SyscallConn()
	if err != nil || !isFirst(pid) {
		return false
	}
	defer context.AfterFunc(ctx, func() { process.SetReadDeadline(time.Unix(1, 0)) })()
	_ = raw.Read(func(fd uintptr) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ended = n > 0
		return ended
	})
	return ended
}

// isFirst reports whether a process is the first of a PID namespace below ours: a PID from another machine can be
// any process here.
func isFirst(pid int) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(status) {
		if ids, ok := bytes.CutPrefix(line, []byte("NSpid:")); ok {
			fields := bytes.Fields(ids)
			return len(fields) > 1 && string(fields[len(fields)-1]) == "1"
		}
	}
	return false
}

// oomKills returns a function that counts how many processes the kernel killed in a container for want of memory.
// Call oomKills as soon as the container has ended: the cgroup exists until the engine has cleaned up.
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

// oomFiles lists the kernel's counters, for cgroup v1 and v2. A process can be in both.
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
